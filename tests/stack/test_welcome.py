"""What a newcomer is told."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tokenweir.config.load import load_policy
from tokenweir.core.policy import Axis, Policy
from tokenweir.stack.blueprint import Blueprint
from tokenweir.stack.demo import DEMO_KEY, demo_policy
from tokenweir.stack.folder import StateFolder
from tokenweir.stack.programs import Programs
from tokenweir.stack.settings import StackSettings
from tokenweir.stack.welcome import Welcome


def policy_of(text: str, folder: Path) -> Policy:
    """Return the policy that *text* says."""
    path = folder / "p.yaml"
    path.write_text(text)
    return load_policy(path, {})


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Welcome]:
    """The welcome of the demo."""
    with StateFolder() as folder:
        blueprint = Blueprint(
            settings=StackSettings(port=4100),
            programs=Programs(Path("/bin/envoy"), Path("/bin/valkey-server")),
            folder=folder,
            policy=folder.policy,
            env={},
            mock_port=4321,
        )
        yield Welcome(blueprint, policy_of(demo_policy(4321), tmp_path), "tokenweir")


def own(demo: Welcome, models: str, folder: Path, more: str = "") -> Welcome:
    """Return the welcome of a policy of one's own, with *models*."""
    text = f"""\
version: 1
providers:
  openai: {{base_url: "https://api.openai.com", dialect: openai}}
  anthropic: {{base_url: "https://api.anthropic.com", dialect: anthropic}}
models:
{models}
tenants:
  acme: {{}}
{more}
"""
    settings = StackSettings(policy=Path("my.yaml"), ledger_url="redis://:pw@host")
    blueprint = replace(demo.blueprint, settings=settings, mock_port=None)
    return replace(demo, blueprint=blueprint, policy=policy_of(text, folder))


def bodies(welcome: Welcome) -> list[dict[str, Any]]:
    """Return the bodies of all calls, in the order of the text."""
    commands = re.findall(r"^ *curl (?:.*\\\n)*.*$", welcome.text(), re.MULTILINE)
    words = [shlex.split(command) for command in commands]
    return [json.loads(each[each.index("-d") + 1]) for each in words]


def test_shell_commands_are_what_a_shell_takes(demo: Welcome) -> None:
    """Each curl can be pasted: its words are closed, and its body is JSON."""
    called = bodies(demo)

    assert len(called) == 5
    assert [body.get("stream", False) for body in called].count(True) == 2


def test_four_streams_fit_and_the_fifth_does_not(demo: Welcome) -> None:
    """
    The demo's limit holds what is said to fit, with room for prompts and for what
    was called before; what is said not to fit does not for seconds, though the
    limit refills meanwhile.
    """
    tenant = demo.policy.tenants["demo"]
    (limit,) = (quota for quota in tenant.quotas if quota.axis is Axis.TOKENS)
    (cap,) = (
        body["max_tokens"]
        for body in bodies(demo)
        if body.get("stream") and "max_tokens" in body
    )
    count = demo.text().count("for i in 1 2 3 4 5;") * 5

    assert (count - 1) * (cap + 100) + 2_000 <= limit.capacity
    assert count * cap > limit.capacity + 4 * limit.rate // 60
    assert "So 200 four times, and 429 once." in demo.text()


def test_what_never_fits_never_fits(demo: Welcome) -> None:
    """The last call asks for more than the limit can ever hold."""
    tenant = demo.policy.tenants["demo"]
    (limit,) = (quota for quota in tenant.quotas if quota.axis is Axis.TOKENS)
    last = bodies(demo)[-1]

    assert last["n"] * last["max_tokens"] > limit.capacity


def test_sdks_need_two_variables(demo: Welcome) -> None:
    """Base URLs and keys of both APIs can be exported."""
    text = demo.text()

    openai = f"OPENAI_BASE_URL=http://127.0.0.1:4100/v1 OPENAI_API_KEY='{DEMO_KEY}'"
    assert f"export {openai}" in text
    assert "export ANTHROPIC_BASE_URL=http://127.0.0.1:4100 " in text


def test_the_tour_is_told_first(demo: Welcome, tmp_path: Path) -> None:
    """Whoever reads on sees it before any call; with one's own providers it is not."""
    before = demo.text().partition("curl")[0]
    models = "  gpt-4.1: {provider: openai}"

    assert "\n  tokenweir tour\n" in before
    assert "tour" not in own(demo, models, tmp_path).text()


def test_where_to_look_is_told(demo: Welcome) -> None:
    """Usage, metrics, policy and logs each have a line."""
    text, folder = demo.text(), demo.blueprint.folder

    assert f"tokenweir usage --ledger unix://{folder.ledger}" in text
    assert "http://127.0.0.1:9090/metrics" in text
    assert str(folder.policy) in text
    assert str(folder.logs) in text


def test_the_mock_is_not_taken_for_a_provider(demo: Welcome) -> None:
    """It is said who answers, and how the limit is reached."""
    assert "mock provider" in demo.text()
    assert "1 2 3 4 5" in demo.text()


def test_with_an_own_policy_nothing_is_invented(demo: Welcome, tmp_path: Path) -> None:
    """No key, no mock; a model of the policy; the ledger's password stays secret."""
    text = own(demo, "  gpt-5: {provider: openai}", tmp_path).text()

    assert '"model": "gpt-5"' in text
    assert "'<a key of your policy>'" in text
    assert "<the ledger's URL>" in text
    for word in (DEMO_KEY, "mock", "1 2 3 4 5", "ANTHROPIC", ":pw@"):
        assert word not in text


def test_only_apis_with_a_model_are_shown(demo: Welcome, tmp_path: Path) -> None:
    """A policy without OpenAI's API is shown Anthropic's alone."""
    text = own(demo, "  claude-*: {provider: anthropic}", tmp_path).text()

    assert "OPENAI" not in text
    assert '"model": "<a model of your policy>"' in text


def test_a_single_tenant_needs_no_key(demo: Welcome, tmp_path: Path) -> None:
    """Where every caller is the same tenant, any key will do."""
    welcome = own(demo, "  gpt-5: {provider: openai}", tmp_path, "single_tenant: acme")

    assert "OPENAI_API_KEY='any'" in welcome.text()


@pytest.mark.parametrize(
    ("env", "warned"),
    [
        ({"http_proxy": "http://proxy"}, True),
        ({"ALL_PROXY": "http://proxy", "no_proxy": "example.com"}, True),
        ({"HTTP_PROXY": "http://proxy", "NO_PROXY": "127.0.0.1"}, False),
        ({"http_proxy": "http://proxy", "no_proxy": "*"}, False),
        ({"http_proxy": ""}, False),
    ],
)
def test_a_proxy_in_the_way_is_told(
    env: dict[str, str], warned: bool, demo: Welcome
) -> None:
    """Who has a proxy is told how calls to this machine avoid it."""
    welcome = replace(demo, blueprint=replace(demo.blueprint, env=env))

    assert ("export no_proxy=127.0.0.1" in welcome.text()) is warned
