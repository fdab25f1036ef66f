"""Whom Envoy connects to, and whom it trusts."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from tests.envoyconf.certificates import Authority
from tests.envoyconf.client import Reply, request
from tests.envoyconf.gateway import Gateway, Setup, gateway, policy_of, provider
from tests.envoyconf.h2_upstream import H2Upstream
from tests.scripted_upstream import ScriptedUpstream, reply
from tokenweir.envoyconf.clusters import clusters
from tokenweir.envoyconf.names import PROCESSOR_CLUSTER
from tokenweir.envoyconf.settings import EnvoySettings

POST = request(body=b'{"model": "m"}')


def test_a_cluster_for_each_provider() -> None:
    """
    Every provider has a cluster that statistics call by its name; ours comes last.
    """
    a, b = provider("a", 1), provider("b", 2)
    found = clusters(policy_of(a, b), EnvoySettings())

    names = [a.cluster, b.cluster, PROCESSOR_CLUSTER]
    assert [cluster.name for cluster in found] == names
    assert [cluster.alt_stat_name for cluster in found[:2]] == ["a", "b"]
    assert {each.per_connection_buffer_limit_bytes for each in found[:2]} == {131_072}


# === TLS ========================================================================


def _over_tls(
    context: ssl.SSLContext, authority: Authority | None, host: str = "localhost"
) -> Setup:
    ca_file = None if authority is None else str(authority.file)
    return Setup(
        up={"scheme": "https", "host": host, "ca_file": ca_file},
        upstream=ScriptedUpstream(context),
        policy={"retries": 0},
    )


async def _ask(setup: Setup) -> tuple[Reply, ScriptedUpstream]:
    async with gateway(setup) as gate:
        gate.upstream.play(reply(b'{"tls": true}'))
        return await gate.ask(POST), gate.upstream


async def test_tls_with_the_right_name(tmp_path: Path) -> None:
    """The provider is asked for by name (SNI), and trusted by its own authority."""
    authority = Authority.create(tmp_path)
    context = authority.server_context("localhost")
    names: list[str | None] = []
    context.sni_callback = lambda _, name, __: names.append(name)

    answer, upstream = await _ask(_over_tls(context, authority))

    assert (answer.status, answer.body) == (200, b'{"tls": true}')
    assert names == ["localhost"]
    assert upstream.requests[0].header("host") == f"localhost:{upstream.port}"


async def test_tls_with_an_address(tmp_path: Path) -> None:
    """A provider that is an address is checked by address, and no SNI is sent."""
    authority = Authority.create(tmp_path)
    context = authority.server_context("127.0.0.1")
    names: list[str | None] = []
    context.sni_callback = lambda _, name, __: names.append(name)

    answer, _ = await _ask(_over_tls(context, authority, host="127.0.0.1"))

    assert answer.status == 200
    assert names == [None]


async def test_tls_with_the_systems_authorities(tmp_path: Path) -> None:
    """A provider without a bundle of its own is checked against the system's."""
    authority = Authority.create(tmp_path)
    setup = _over_tls(authority.server_context("localhost"), None)
    setup.settings = {"ca_file": str(authority.file)}

    answer, _ = await _ask(setup)

    assert answer.status == 200


@pytest.mark.parametrize("fault", ["authority", "name", "expired", "plain"])
async def test_tls_with_a_wrong_certificate(tmp_path: Path, fault: str) -> None:
    """Who can't prove to be the provider gets no byte, and the app gets our 503."""
    authority = Authority.create(tmp_path)
    signer = (
        Authority.create(tmp_path, "stranger") if fault == "authority" else authority
    )
    name = "elsewhere.example" if fault == "name" else "localhost"
    context = signer.server_context(name, days=-1 if fault == "expired" else 1)
    setup = _over_tls(context, authority)
    setup.settings = {"connect_timeout_ms": 1_000}
    if fault == "plain":
        setup.upstream = ScriptedUpstream()

    answer, upstream = await _ask(setup)

    assert answer.status == 503
    assert answer.header("x-tokenweir-refusal") == "upstream_unavailable"
    assert upstream.requests == []


@asynccontextmanager
async def _beside_h2(
    tmp_path: Path, alpn: tuple[str, ...]
) -> AsyncIterator[tuple[Gateway, H2Upstream]]:
    authority = Authority.create(tmp_path)
    async with H2Upstream(authority.server_context("localhost", alpn=alpn)) as upstream:
        up = {"scheme": "https", "host": "localhost", "ca_file": str(authority.file)}
        async with gateway(Setup(up=up | {"port": upstream.port})) as gate:
            yield gate, upstream


async def test_http2_by_negotiation(tmp_path: Path) -> None:
    """A provider that offers HTTP/2 is spoken to in HTTP/2."""
    async with _beside_h2(tmp_path, ("h2", "http/1.1")) as (gate, upstream):
        answers = await asyncio.gather(*(gate.ask(POST) for _ in range(5)))

        assert [answer.body for answer in answers] == [b'{"h2": true}'] * 5
        assert {answer.header("content-length") for answer in answers} == {"12"}
        assert upstream.bodies == [b'{"model": "m"}'] * 5
        first = upstream.requests[0]
        assert first[":scheme"] == "https"
        assert first[":authority"] == f"localhost:{upstream.port}"
        assert first[":path"] == "/v1/chat/completions"
        assert "x-forwarded-proto" not in first


# === the processor's workers ====================================================


@pytest.mark.parametrize("dead_workers", [1, 3])
async def test_dead_workers_are_passed_over(dead_workers: int) -> None:
    """Exchanges go to the workers that live, however many do not."""
    async with gateway(Setup(dead_workers=dead_workers)) as gate:
        statuses = [(await gate.ask(POST)).status for _ in range(20)]

        assert statuses == [200] * 20


def test_health_is_known_at_once() -> None:
    """Envoy's workers hear of a worker's return now, not at the end of some second."""
    *_, processor = clusters(policy_of(provider("a", 1)), EnvoySettings())

    assert processor.common_lb_config is not None
    assert processor.common_lb_config.update_merge_window == timedelta()


async def test_all_workers_dead() -> None:
    """With every worker dead requests are refused at once, and not for longer."""
    patient = {"admission_timeout_ms": 60_000}
    async with gateway(Setup(dead_workers=1, settings=patient)) as gate:
        await gate.processor.stop()

        async with asyncio.timeout(20):
            refused = await gate.ask(POST)
        await gate.processor.start()
        again = await gate.ask(POST)

        assert (refused.status, again.status) == (503, 200)
        assert refused.header("x-tokenweir-refusal") == "governor_unavailable"


async def test_reserving_is_not_repeated() -> None:
    """A worker that dies with a request in hand is not replaced: it may have reserved."""
    async with gateway(Setup(dead_workers=1)) as gate:
        calls = gate.processor.calls

        async def admit(call: object) -> object:
            del call
            raise RuntimeError

        gate.processor.admit = admit
        answer = await gate.ask(POST)

        assert answer.status == 503
        assert len(calls) == 1
