"""Certificates and credentials change while they are used, and no call fails for it."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cases.scene import Scene
from tests.e2e.live import CHARGED, PATIENT, REPLY, SHORT, Load, ask, replace
from tests.envoyconf.certificates import Authority
from tests.pod import until
from tests.scripted_upstream import End, ScriptedUpstream, head

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

MODEL = "behind-tls"
# Each call has a connection of its own, so that each is checked anew.
ANSWER = head(
    headers=(
        ("content-type", "application/json"),
        ("content-length", str(len(REPLY))),
        ("connection", "close"),
    )
)


@dataclass
class Secure:
    """
    A provider behind TLS that wants to know who calls.

    Attributes:
        first: Whose certificates it and we have.
        second: Whose they are to be.
        tls: The provider's side.
        folder: Has what the policy names: ``ca``, ``cert``, ``key``, ``credential``.
    """

    scene: Scene
    upstream: ScriptedUpstream
    tls: ssl.SSLContext
    first: Authority
    second: Authority
    folder: Path

    def load(self) -> Load:
        """Return apps that call it."""
        return Load(self.scene)

    def credentials(self) -> set[str | None]:
        """Return what calls have proved themselves with."""
        return {each.header("authorization") for each in self.upstream.requests}

    def knows(self, text: str) -> bool:
        """Tell if Envoy has *text* among its certificates."""
        return text in self.scene.pod.envoy.admin("/certs")


def serial_of(file: Path) -> str:
    """Return the serial number of the first certificate in *file*, as Envoy shows it."""
    decoded = ssl._ssl._test_decode_cert(str(file))  # type: ignore[attr-defined]
    return str(decoded["serialNumber"]).lower().lstrip("0")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def secure(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Secure]:
    """Give the module a pod whose Envoy follows, and such a provider."""
    folder = tmp_path_factory.mktemp("secrets")
    first = Authority.create(folder, "first")
    second = Authority.create(folder, "second")
    tls = first.server_context("localhost")
    tls.load_verify_locations(first.file)
    tls.load_verify_locations(second.file)
    tls.verify_mode = ssl.CERT_REQUIRED
    put_pair(folder, first)
    (folder / "ca").write_bytes(first.file.read_bytes())
    (folder / "credential").write_text("sk-first")
    async with ScriptedUpstream(tls) as upstream:
        upstream.play(ANSWER + REPLY, End.CLOSE)
        named = {name: f"{folder}/{name}" for name in ("ca", "cert", "key")}
        provider = {
            "base_url": f"https://localhost:{upstream.port}",
            "dialect": "openai",
            "credential": f"file:{folder}/credential",
            **{f"{name}_file": path for name, path in named.items()},
        }

        def adapt(content: dict[str, dict[str, object]]) -> None:
            content["providers"]["secure"] = provider
            content["models"][MODEL] = {"provider": "secure"}

        options = {"live": True, **PATIENT}
        async with Scene.open(options=options, adapt=adapt) as scene:
            yield Secure(scene, upstream, tls, first, second, folder)


def put_pair(folder: Path, authority: Authority) -> None:
    """Have a certificate by *authority* in the folder, and its key."""
    pair = authority.client_files("us")
    replace(folder / "key", Path(pair["key_file"]).read_bytes())
    replace(folder / "cert", Path(pair["cert_file"]).read_bytes())


async def test_a_credential(secure: Secure) -> None:
    """A provider's key that changes in its file is used within seconds."""
    secure.upstream.requests.clear()
    load = secure.load()
    async with load.running([ask(SHORT, MODEL)] * 3):
        await until(lambda: load.answers > 5)
        replace(secure.folder / "credential", b"sk-second\n")
        await until(lambda: "Bearer sk-second" in secure.credentials())

    assert load.bad == []
    assert secure.credentials() == {"Bearer sk-first", "Bearer sk-second"}
    assert secure.upstream.requests[-1].header("authorization") == "Bearer sk-second"


async def test_whom_envoy_trusts(secure: Secure) -> None:
    """
    Authorities change in their file, and the provider's certificate meanwhile: no call
    fails, no cluster is another. One that is not trusted any more is not called.
    """
    pod, load, first, second = (
        secure.scene.pod,
        secure.load(),
        secure.first.file.read_bytes(),
        secure.second.file.read_bytes(),
    )
    clusters = (pod.xds / "cds.json").read_bytes()
    ca = secure.folder / "ca"
    async with load.running([ask(SHORT, MODEL)] * 3):
        ca.write_bytes(first + second)  # in place: a copy is what Envoy reads
        await until(lambda: secure.knows(serial_of(secure.second.file)))
        answers = load.answers
        certificate = secure.second.server_files("localhost")
        secure.tls.load_cert_chain(certificate["cert_file"], certificate["key_file"])
        await until(lambda: load.answers > answers + 10)
        replace(ca, second)
        await until(lambda: not secure.knows(serial_of(secure.first.file)))
        answers = load.answers
        await until(lambda: load.answers > answers + 10)
    replace(ca, first)
    await until(lambda: not secure.knows(serial_of(secure.second.file)))
    refused = await secure.scene.call(ask(SHORT, MODEL).partition(b"\r\n\r\n")[2])
    replace(ca, first + second)
    await until(lambda: secure.knows(serial_of(secure.second.file)))

    assert load.bad == []
    assert (pod.xds / "cds.json").read_bytes() == clusters
    assert (refused.status, refused.refusal) == (503, "upstream_unavailable")


async def test_who_envoy_is(secure: Secure) -> None:
    """Our own certificate and its key change, and new connections come with them."""
    load = secure.load()
    async with load.running([ask(SHORT, MODEL)] * 3):
        await until(lambda: load.answers > 5)
        put_pair(secure.folder, secure.second)
        await until(lambda: secure.knows(serial_of(secure.folder / "cert")))
        answers = load.answers
        await until(lambda: load.answers > answers + 10)
    sds = json.dumps(
        {path.name: path.read_text() for path in secure.scene.pod.xds.glob("secret-*")}
    )

    assert load.bad == []
    assert "PRIVATE KEY" not in sds
    await secure.scene.pod.settled()
    charges = await secure.scene.charges()
    assert set(charges) <= {CHARGED, (0, 0)}
