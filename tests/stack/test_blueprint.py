"""Which children there are, and what they are told."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tokenweir.cli.envoy_options import envoy_settings
from tokenweir.cli.serve import add_parser
from tokenweir.stack.blueprint import LEDGER_VARIABLE, Blueprint
from tokenweir.stack.child import ChildSpec
from tokenweir.stack.folder import BOOTSTRAP, StateFolder
from tokenweir.stack.programs import Programs
from tokenweir.stack.settings import StackSettings
from tokenweir.transport.choice import Transport

ENV = {
    "PATH": "/usr/bin",
    "OPENAI_API_KEY": "sk-secret",
    "HTTP_PROXY": "http://proxy",
    "LLMOCK_RPM": "1",
}
REDIS_URL = "rediss://user:password@redis.example:6380/0"


@pytest.fixture
def demo() -> Iterator[Blueprint]:
    """What runs when nothing was asked for."""
    with StateFolder() as folder:
        yield Blueprint(
            settings=StackSettings(),
            programs=Programs(Path("/bin/envoy"), Path("/bin/valkey-server")),
            folder=folder,
            policy=folder.policy,
            env=ENV,
            mock_port=4321,
        )


def own(demo: Blueprint) -> Blueprint:
    """What runs with a policy and a Redis of one's own, and three workers."""
    settings = StackSettings(
        policy=Path("my.yaml"), ledger_url=REDIS_URL, workers=3, admin_port=9100
    )
    return replace(
        demo,
        settings=settings,
        programs=Programs(Path("/bin/envoy")),
        policy=Path("/etc/my.yaml"),
        mock_port=None,
    )


def children(blueprint: Blueprint) -> dict[str, ChildSpec]:
    """Return all children by name."""
    return {child.name: child for tier in blueprint.tiers() for child in tier}


def option(child: ChildSpec, name: str) -> str:
    """Return the argument after *name*."""
    return child.command[child.command.index(name) + 1]


def test_the_demo_has_four_children(demo: Blueprint) -> None:
    """The ledger is first and Envoy is last."""
    names = [[child.name for child in tier] for tier in demo.tiers()]

    assert names == [["ledger"], ["mock", "processor-0"], ["envoy"]]


def test_what_the_user_has_is_not_run(demo: Blueprint) -> None:
    """With an own policy there is no mock, with an own ledger no other."""
    names = [[child.name for child in tier] for tier in own(demo).tiers()]

    assert names == [["processor-0", "processor-1", "processor-2"], ["envoy"]]


def test_envoy_is_told_of_all_processors(demo: Blueprint) -> None:
    """Envoy's processors are those that run, each with its own socket."""
    blueprint = own(demo)
    sockets = [
        option(child, "--socket")
        for name, child in children(blueprint).items()
        if name.startswith("processor")
    ]

    assert blueprint.envoy_settings().processor_sockets == tuple(sockets)
    assert len(set(sockets)) == 3


def test_envoy_follows_what_processors_write(demo: Blueprint) -> None:
    """All that Envoy is rendered with is said to processors, and where to put it."""
    blueprint = own(demo)
    found = children(blueprint)
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    for name, child in found.items():
        if not name.startswith("processor"):
            continue
        arguments = parser.parse_args(child.command[4:])
        assert envoy_settings(arguments) == blueprint.envoy_settings()
        assert arguments.envoy_binary == Path("/bin/envoy")
    folder = Path(str(blueprint.envoy_settings().xds_dir))

    assert option(found["envoy"], "-c") == str(folder / BOOTSTRAP)
    assert blueprint.envoy_settings().admin_socket == str(blueprint.folder.envoy_admin)


def test_each_processor_has_an_admin_port(demo: Blueprint) -> None:
    """The ports follow the first one, on loopback."""
    found = children(own(demo))
    ports = [option(found[f"processor-{worker}"], "--admin") for worker in range(3)]

    assert ports == ["127.0.0.1:9100", "127.0.0.1:9101", "127.0.0.1:9102"]


def test_a_slow_machine_is_no_outage(demo: Blueprint) -> None:
    """The ledger has more time than in a fleet, and Envoy waits for longer still."""
    timeout_ms = int(option(children(demo)["processor-0"], "--ledger-timeout-ms"))

    assert 200 < timeout_ms < demo.envoy_settings().admission_timeout_ms


@pytest.mark.parametrize("transport", Transport)
def test_transport(demo: Blueprint, transport: Transport) -> None:
    """Processors serve Envoy in the way that was asked for."""
    settings = replace(demo.settings, transport=transport)
    processor = children(replace(demo, settings=settings))["processor-0"]

    assert option(processor, "--transport") == transport.value


def test_all_listen_on_this_machine_only(demo: Blueprint) -> None:
    """Envoy and the mock are on loopback, the ledger has no TCP port."""
    found = children(demo)

    assert demo.envoy_settings().listen_host == "127.0.0.1"
    assert option(found["mock"], "--host") == "127.0.0.1"
    assert option(found["ledger"], "--port") == "0"


def test_no_secret_is_on_a_command_line(demo: Blueprint) -> None:
    """The ledger's URL goes by the environment: others can read command lines."""
    blueprint = own(demo)
    processor = children(blueprint)["processor-0"]

    assert option(processor, "--ledger") == f"env:{LEDGER_VARIABLE}"
    assert processor.env[LEDGER_VARIABLE] == REDIS_URL
    assert not any(
        "password" in word
        for child in children(blueprint).values()
        for word in child.command
    )


def test_credentials_are_for_processors_only(demo: Blueprint) -> None:
    """Who needs none of the user's variables gets none of them."""
    found = children(demo)

    assert found["processor-0"].env["OPENAI_API_KEY"] == "sk-secret"
    for name in ("ledger", "mock", "envoy"):
        assert found[name].env == {"PATH": "/usr/bin"}


def test_processors_read_the_policy_that_was_given(demo: Blueprint) -> None:
    """The policy file is the user's, so that a change of it is noticed."""
    assert option(children(own(demo))["processor-0"], "--policy") == "/etc/my.yaml"


def test_each_child_has_a_log_of_its_own(demo: Blueprint) -> None:
    """No two write to the same file, and Envoy's requests have one too."""
    logs = [child.log for child in children(demo).values()]

    assert len({*logs, demo.access_log}) == 5


def test_what_a_dead_child_leaves_is_removed(demo: Blueprint) -> None:
    """Every socket is removed before the child that makes it starts again."""
    found = children(demo)

    assert found["ledger"].sockets == (demo.folder.ledger,)
    assert found["processor-0"].sockets == (demo.folder.processor(0),)
    assert found["envoy"].sockets == (demo.folder.envoy_admin,)


@pytest.mark.parametrize(
    ("answer", "ready"),
    [
        (b"401 Unauthorized\r\nx-tokenweir-refusal: unknown_key", True),
        (b"200 OK", False),
    ],
)
async def test_envoy_is_ready_once_it_refuses(
    demo: Blueprint, answer: bytes, ready: bool
) -> None:
    """
    An Envoy that is alive, and lets through what nobody has admitted, is not ready.

    envoyproxy/envoy#38521: it silently failed open.
    """

    async def say(
        what: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 " + what + b"\r\n\r\n")
        writer.close()

    admin = await asyncio.start_unix_server(
        partial(say, b"200 OK"), demo.folder.envoy_admin
    )
    apps = await asyncio.start_server(partial(say, answer), "127.0.0.1", 0)
    port = apps.sockets[0].getsockname()[1]
    blueprint = replace(demo, settings=StackSettings(port=port))
    async with admin, apps:
        assert await children(blueprint)["envoy"].ready() is ready
