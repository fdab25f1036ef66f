"""One policy for a fleet: published once, in force everywhere, and by nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import pytest_asyncio
import redis
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.cases.apis import OPENAI, TOLD
from tests.cases.connection import call, request
from tests.pod import Pod, Processor, policy, until
from tests.scripted_upstream import ScriptedUpstream, reply
from tests.servers import Server, start_valkey
from tokenweir.cli.main import main
from tokenweir.governance.envelope import POLICY, Envelope, decoded, encoded, sign
from tokenweir.governance.key_files import private_key

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

SIDECARS = 8
# Two are promised; the rest is what a busy machine takes.
REACH_SECONDS = 15.0
ACL = Path("deploy/redis/tokenweir.acl")
ENVIRONMENT = {
    **os.environ,
    "OPENAI_API_KEY": "sk-provider-CANARY",
    "ANTHROPIC_API_KEY": "sk-provider-CANARY",
    "PYTHONPATH": f"{Path('sidecar').resolve()}:{Path.cwd()}",
}


@dataclass
class Fleet:
    """
    Sidecars without Envoy, and whoever governs them.

    Attributes:
        folder: Has keys, logs, and what each sidecar keeps.
        server: The ledger, with the users of deploy/redis.
        sidecars: Each follows what is published.
        version: The newest that all of them can use.
    """

    folder: Path
    server: Server
    sidecars: list[Processor] = field(default_factory=list)
    version: int = 0

    def url(self, user: str) -> str:
        """Return the ledger's URL for a user of deploy/redis."""
        login = f"tokenweir-{user}:CHANGE-ME-{user.upper()}"
        return self.server.url.replace("unix://", f"unix://{login}@")

    def let_users_in(self) -> None:
        """Give the server its users, as its aclfile would."""
        with redis.Redis.from_url(self.server.url) as client:
            for line in ACL.read_text().splitlines():
                client.execute_command("ACL", "SETUSER", *line.split()[1:])

    def command(self, number: int) -> list[str]:
        """Return how sidecar *number* is started."""
        return [
            *(sys.executable, "-m", "tokenweir", "serve", "--admin", "127.0.0.1:0"),
            *("--policy", "ledger", "--governance-key", f"file:{self.folder}/key.pub"),
            *("--last-good", str(self.kept(number)), "--ledger", self.url("sidecar")),
            *("--socket", str(self.folder / f"{number}.sock")),
            *("--ledger-timeout-ms", "1000"),
        ]

    def kept(self, number: int) -> Path:
        """Return the folder of what sidecar *number* keeps."""
        return self.folder / f"good-{number}"

    def keeps(self, number: int) -> bool:
        """Tell if sidecar *number* would start with the newest version by itself."""
        path = self.kept(number) / "policy.json"
        return path.exists() and decoded(path.read_bytes()).version == self.version

    async def tokenweir(self, *arguments: str, sign: bool = True) -> int:
        """Run `tokenweir policy` as the one who governs; return the exit code."""
        options = ["--ledger", self.url("admin")]
        if sign:
            options += ["--signing-key", f"file:{self.folder}/key.pem"]
        return await asyncio.to_thread(main, ["policy", *arguments, *options])

    async def publish(self, **changes: Any) -> None:
        """Publish the policy with *changes*, through the command."""
        path = self.folder / "policy.yaml"
        path.write_text(yaml.safe_dump(policy(9, **changes)))
        assert await self.tokenweir("publish", str(path), "--comment", "a test") == 0
        self.version += 1

    def force(self, value: bytes) -> None:
        """Write *value* by hand as the next version: with the admin's rights."""
        self.version += 1
        with redis.Redis.from_url(self.url("admin")) as client:
            client.set(f"{{twg}}:policy:{self.version}", value)
            client.set("{twg}:policy", self.version)

    def signed(self, content: str, key: Ed25519PrivateKey) -> bytes:
        """Return *content* as the next version, signed with *key*."""
        envelope = Envelope(POLICY, self.version + 1, content, 0, "mallory", "")
        return encoded(sign(envelope, key))

    @property
    def signing_key(self) -> Ed25519PrivateKey:
        """The key of the one who governs."""
        return private_key(f"file:{self.folder}/key.pem", {})

    def in_force(self, number: int) -> dict[str, Any]:
        """Return what sidecar *number* says is in force."""
        shown: dict[str, Any] = json.loads(self.sidecars[number].admin("/policy"))
        return shown

    def loaded(self, version: int) -> bool:
        """Tell if all have said that *version* is in force."""
        return all(
            any(
                line.get("event") == "policy_loaded" and line["version"] == version
                for line in sidecar.lines()
            )
            for sidecar in self.sidecars
        )

    def refused(self, text: str) -> bool:
        """Tell if all have refused something for which *text* is said."""
        return all(
            any(
                line.get("event") == "policy_refused" and text in str(line["problems"])
                for line in sidecar.lines()
            )
            for sidecar in self.sidecars
        )


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder whose name is short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="tw-gov-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(folder: Path) -> AsyncIterator[Fleet]:
    """Eight sidecars that wait for a policy, which is then published."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(folder, await asyncio.to_thread(start_valkey, folder))
        stack.callback(fleet.server.stop)
        fleet.let_users_in()
        with (folder / "key.pub").open("w") as file, contextlib.redirect_stdout(file):
            assert main(["policy", "keygen", "--out", str(folder / "key.pem")]) == 0
        await fleet.publish()

        def start(number: int) -> Processor:
            log = folder / f"{number}.log"
            socket = folder / f"{number}.sock"
            return Processor(socket, fleet.command(number), log, ENVIRONMENT)

        starting = [asyncio.to_thread(start, number) for number in range(SIDECARS)]
        for started in await asyncio.gather(*starting, return_exceptions=True):
            assert isinstance(started, Processor), started
            fleet.sidecars.append(started)
            stack.callback(started.kill)
        yield fleet


async def test_a_policy_reaches_eight_sidecars(fleet: Fleet) -> None:
    """What is published is in force in each of them within two seconds."""
    took = []
    for rate in (100, 200, 300):
        await fleet.publish(quotas=[{"requests_per_minute": rate}])
        began = time.monotonic()
        await until(lambda: fleet.loaded(fleet.version), REACH_SECONDS)
        took.append(time.monotonic() - began)

    print(f"eight sidecars in {', '.join(f'{s:.2f}' for s in took)} s")  # noqa: T201
    assert min(took) < REACH_SECONDS
    for number in range(SIDECARS):
        shown = fleet.in_force(number)
        assert (shown["source"], shown["version"]) == ("ledger", fleet.version)
        assert shown["comment"] == "a test"
        assert "CANARY" not in str(shown)
    metric = f'source="ledger",version="{fleet.version}"'
    assert metric in fleet.sidecars[0].admin("/metrics")


async def test_a_broken_one_is_refused_at_publish(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is told what is wrong, and nobody hears of it."""
    path = fleet.folder / "broken.yaml"
    path.write_text("version: 1\ntenants: {acme: {}}\n")

    assert await fleet.tokenweir("publish", str(path), "--comment", "oops") == 1
    assert "providers" in capsys.readouterr().out
    with redis.Redis.from_url(fleet.url("admin")) as client:
        assert client.get("{twg}:policy") == str(fleet.version).encode()


async def test_a_broken_one_that_is_forced_in_is_ignored(fleet: Fleet) -> None:
    """By everyone, with a clear error, until a good one comes; whatever is broken."""
    good = fleet.version
    stranger = Ed25519PrivateKey.generate()
    elsewhere = policy(9)
    elsewhere["providers"]["openai"]["credential"] = "env:NOT_IN_THIS_POD"
    text = yaml.safe_dump(policy(9))
    fleet.force(b"nonsense")
    await until(lambda: fleet.refused(f"policy {fleet.version}: is damaged"))
    fleet.force(fleet.signed(text, stranger))
    await until(lambda: fleet.refused(f"policy {fleet.version}: is not signed by"))
    fleet.force(fleet.signed("version: 1\n", fleet.signing_key))
    await until(lambda: fleet.refused(f"policy {fleet.version}: providers: "))
    fleet.force(fleet.signed(yaml.safe_dump(elsewhere), fleet.signing_key))
    await until(lambda: fleet.refused("NOT_IN_THIS_POD is not set"))

    for number in range(SIDECARS):
        shown = fleet.in_force(number)
        assert shown["version"] == good
        assert shown["refused"]["policy"]["version"] == fleet.version
    assert fleet.sidecars[0].metric("tokenweir_policy_refused_total") == 4
    assert json.loads(fleet.sidecars[0].admin("/readyz"))["ready"]

    assert await fleet.tokenweir("rollback", str(good)) == 0
    fleet.version += 1
    await until(lambda: fleet.loaded(fleet.version))
    assert fleet.in_force(0)["refused"] == {}


async def test_a_sidecars_user_can_not_publish(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """Redis refuses it, even with the signing key in a thief's hand."""
    path = fleet.folder / "policy.yaml"
    key = f"file:{fleet.folder}/key.pem"
    options = ["--ledger", fleet.url("sidecar"), "--signing-key", key]
    publish = ["policy", "publish", str(path), "--comment", "forged", *options]

    assert await asyncio.to_thread(main, publish) == 1
    assert "does not allow" in capsys.readouterr().err
    with redis.Redis.from_url(fleet.url("sidecar")) as client:
        for command in (("SET", "{twg}:policy", "1"), ("DEL", "{twg}:policy")):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command)
    assert fleet.in_force(0)["version"] == fleet.version


async def test_of_two_publishers_at_once_none_is_lost_silently(fleet: Fleet) -> None:
    """Each publishes, or is told that another did; sidecars end with the newest."""
    path = fleet.folder / "policy.yaml"
    command = [
        *(sys.executable, "-m", "tokenweir", "policy", "publish", str(path)),
        *("--comment", "at once", "--ledger", fleet.url("admin")),
        *("--signing-key", f"file:{fleet.folder}/key.pem"),
    ]
    ends = await asyncio.gather(
        *(
            asyncio.to_thread(
                subprocess.run, command, env=ENVIRONMENT, capture_output=True, text=True
            )
            for _ in range(2)
        )
    )

    published = [end for end in ends if end.returncode == 0]
    assert published
    for end in ends:
        assert end in published or "was, meanwhile" in end.stderr
    fleet.version += len(published)
    await until(lambda: fleet.loaded(fleet.version))


async def test_a_ledger_that_is_lost(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is in force stays, a pod starts without it, and what was lost comes back."""
    sidecar = fleet.sidecars[0]
    # It is written after it is in force, and that is told.
    await until(lambda: all(fleet.keeps(number) for number in (0, 1)))
    fleet.server.stop()
    sidecar.kill()
    await asyncio.to_thread(sidecar.restart)
    shown = fleet.in_force(0)
    assert (shown["source"], shown["version"]) == ("last_good", fleet.version)
    assert fleet.in_force(1)["version"] == fleet.version

    fleet.server.restart()
    fleet.let_users_in()
    kept = fleet.kept(1) / "policy.json"
    public = ["--governance-key", f"file:{fleet.folder}/key.pub"]
    assert await fleet.tokenweir("restore", str(kept), *public, sign=False) == 0
    assert "is published again" in capsys.readouterr().out
    await until(lambda: fleet.in_force(0)["source"] == "ledger")
    await fleet.publish()
    await until(lambda: fleet.loaded(fleet.version))


async def test_a_start_with_nothing_at_all(fleet: Fleet) -> None:
    """Without ledger and with a damaged file a pod waits, says why, and then serves."""
    sidecar = fleet.sidecars[0]
    sidecar.kill()
    (fleet.kept(0) / "policy.json").write_bytes(b"\x00")
    fleet.server.stop()
    log = fleet.folder / "waiting.log"
    with log.open("wb") as file:
        process = _started(fleet.command(0), file)
    try:
        await until(lambda: _admin_port(log), 60)
        port = _admin_port(log)
        await until(lambda: "policy.json is damaged" in _answer(port, "/readyz")[1])
        assert _answer(port, "/readyz")[0] == 503
        assert _answer(port, "/healthz")[0] == 200

        fleet.server.restart()
        fleet.let_users_in()
        fleet.version = 0
        await fleet.publish()
        await until(lambda: '"event":"serving"' in log.read_text(), 60)
        process.terminate()
        assert await asyncio.to_thread(process.wait, 30) == 0
    finally:
        process.kill()
        process.wait()


async def test_who_waits_can_be_told_to_leave(fleet: Fleet) -> None:
    """SIGTERM ends a processor that has never had a policy."""
    log = fleet.folder / "leaving.log"
    command = [*fleet.command(0)]
    command[command.index(str(fleet.kept(0)))] = str(fleet.folder / "empty")
    command[command.index(fleet.url("sidecar"))] = "redis://127.0.0.1:1"
    with log.open("wb") as file:
        process = _started(command, file)
    try:
        await until(lambda: "policy_awaited" in log.read_text(), 60)
        process.terminate()
        assert await asyncio.to_thread(process.wait, 30) == 0
    finally:
        process.kill()
        process.wait()


async def test_apps_feel_what_is_published(fleet: Fleet, folder: Path) -> None:
    """A limit that is published holds for an app behind Envoy, and is lifted again."""
    server = await asyncio.to_thread(start_valkey, folder)
    other = Fleet(folder, server)
    other.let_users_in()
    try:
        async with ScriptedUpstream() as upstream:
            upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
            content = policy(upstream.port)
            path = folder / "app.yaml"

            async def publish(quotas: list[dict[str, int]]) -> None:
                content["tenants"]["acme"]["quotas"] = quotas
                path.write_text(yaml.safe_dump(content))
                assert (
                    await other.tokenweir("publish", str(path), "--comment", "app") == 0
                )

            await publish([])
            arguments = [
                *("--policy", "ledger", "--governance-key", f"file:{folder}/key.pub"),
                *("--last-good", str(folder / "app")),
            ]
            async with Pod.start(content, server=server, arguments=arguments) as pod:

                async def status() -> int:
                    data = request(OPENAI.request(stream=False))
                    return (await call(pod.port, data)).status

                assert [await status() for _ in range(3)] == [200, 200, 200]
                await publish([{"requests_per_minute": 1, "capacity": 1}])
                await _until_status(status, 429)
                await publish([])
                await _until_status(status, 200)
    finally:
        server.stop()


async def _until_status(ask: Callable[[], Any], wanted: int) -> None:
    async def is_so() -> bool:
        found: int = await ask()
        return found == wanted

    await until(is_so)


def _started(command: list[str], log: BinaryIO) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdout=log, stderr=log, env=ENVIRONMENT)


def _admin_port(log: Path) -> int:
    """Return what a processor that waits for a policy has told; 0: nothing yet."""
    for line in log.read_text().splitlines():
        with contextlib.suppress(ValueError):  # it may be half written
            told = json.loads(line)
            if told.get("event") == "policy_awaited":
                return int(told["admin_port"])
    return 0


def _answer(port: int, path: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()
