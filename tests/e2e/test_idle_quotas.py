"""Quotas that do nothing are told: by a pod at once, and by its ledger in time."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.cases.apis import OPENAI
from tests.cases.scene import Scene
from tests.pod import Processor, until
from tests.scripted_upstream import reply
from tokenweir.cli.main import main
from tokenweir.governance.key_files import public_text, write_private_key

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

RPM, TYPO, BETA = "acme.requests_per_minute", "acme.typo", "beta.concurrency"


@dataclass
class Stage:
    """
    A pod that follows issued keys, and somebody who issues some.

    Attributes:
        scene: The pod.
        folder: Has the signing key, and the public one.
    """

    scene: Scene
    folder: Path

    @property
    def processor(self) -> Processor:
        """The pod's."""
        return self.scene.pod.processors[0]

    def ineffective(self, quota: str, reason: str) -> bool:
        """Tell if the pod says that *quota* has no effect."""
        labels = f'{{quota="{quota}",reason="{reason}"}}'
        return self.processor.metric(f"tokenweir_quotas_ineffective{labels}") == 1

    def last_matched_s(self, quota: str) -> float:
        """Return when the pod says that *quota* last applied to anything."""
        name = "tokenweir_quota_last_matched_timestamp_seconds"
        return self.processor.metric(f'{name}{{quota="{quota}"}}')

    async def run(self, *command: str) -> str:
        """Run a command on the pod's ledger; return what it printed."""
        out = io.StringIO()
        ledger = ("--ledger", self.scene.pod.server.url)
        with contextlib.redirect_stdout(out):
            assert await asyncio.to_thread(main, [*command, *ledger]) == 0
        return out.getvalue()

    async def check(self) -> dict[str, Any]:
        """Return what is said of the pod's policy."""
        public = ("--governance-key", f"file:{self.folder / 'key.pub'}")
        path = str(self.scene.pod.policy_path)
        # More than one hour: the next may begin between call and look.
        options = ("--without-secrets", "--json", "--hours", "3", *public)
        told: dict[str, Any] = json.loads(await self.run("check", path, *options))
        return told


def adapt(content: dict[str, Any]) -> None:
    """Let a family stand for a slip, and add a tenant whom nobody can be yet."""
    content["models"]["gpt-*"] = {"provider": "openai"}
    content["tenants"]["beta"] = {"quotas": [{"concurrency": 1}]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    """Give the module a pod with a slip in the models of a quota."""
    quotas = [
        {"requests_per_minute": 600},
        {"concurrency": 1, "models": ["gpt-4o-mni"], "name": "typo"},
    ]
    with tempfile.TemporaryDirectory() as name:
        folder, private = Path(name), Ed25519PrivateKey.generate()
        write_private_key(folder / "key.pem", private)
        (folder / "key.pub").write_text(public_text(private.public_key()))
        arguments = ["--governance-key", f"file:{folder / 'key.pub'}"]
        async with Scene.open(
            options={"arguments": arguments}, quotas=quotas, adapt=adapt
        ) as scene:
            yield Stage(scene, folder)


async def test_a_pod_tells_at_once(stage: Stage) -> None:
    """What can't have an effect is a metric and a line in the log, with the reason."""
    await until(lambda: stage.ineffective(TYPO, "misspelt"))
    await until(lambda: stage.ineffective(BETA, "no_keys"))
    assert stage.processor.metric("tokenweir_quotas_ineffective") == 2
    await until(lambda: stage.processor.count("quotas_ineffective"))
    [line] = [
        line
        for line in stage.processor.lines()
        if line.get("event") == "quotas_ineffective"
    ]

    assert line["quotas"] == {TYPO: "misspelt", BETA: "no_keys"}
    assert (line["level"], line["count"]) == ("warning", 2)


async def test_the_ledger_tells_in_time(stage: Stage) -> None:
    """The quota that applied to nothing is named, with what it missed, and no other."""
    stage.scene.upstream.play(reply(OPENAI.reply("Hi.")))
    for _ in range(2):
        answer = await stage.scene.call(OPENAI.request(stream=False))
        assert answer.status == 200
    await stage.scene.pod.settled()

    async def is_written() -> bool:
        idle = (await stage.check())["seen"]["unmatched_quotas"]
        return all(each["quota"] != RPM for each in idle)

    await until(is_written)
    told = await stage.check()
    idle = {each["quota"]: each["calls"] for each in told["seen"]["unmatched_quotas"]}
    assert idle == {TYPO: 2, BETA: 0}
    reasons = {each["quota"]: each["reason"] for each in told["ineffective_quotas"]}
    assert reasons == {TYPO: "misspelt", BETA: "no_keys"}
    assert stage.last_matched_s(RPM) > 0
    assert stage.last_matched_s(TYPO) == 0


async def test_what_is_put_right_is_told_no_more(stage: Stage) -> None:
    """A key that is issued, and a policy that is changed, count at once."""
    await until(lambda: stage.ineffective(TYPO, "misspelt"))
    await until(lambda: stage.ineffective(BETA, "no_keys"))
    sign = ("--signing-key", f"file:{stage.folder / 'key.pem'}")
    await stage.run("keys", "new", "--id", "b", "--tenant", "beta", *sign)
    await until(lambda: not stage.ineffective(BETA, "no_keys"))
    assert stage.ineffective(TYPO, "misspelt")
    path = stage.scene.pod.policy_path
    content = yaml.safe_load(path.read_text())
    content["tenants"]["acme"]["quotas"][1]["models"] = ["gpt-4o-mini"]
    path.write_text(yaml.safe_dump(content))
    await until(lambda: not stage.ineffective(TYPO, "misspelt"))

    assert stage.processor.metric("tokenweir_quotas_ineffective") == 0
    assert (await stage.check())["ineffective_quotas"] == []
