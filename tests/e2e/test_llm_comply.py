"""A conformance suite that nobody here wrote: through the pod as without it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llm_comply
import pytest
import pytest_asyncio
from llm_comply import runner
from llm_comply.config import ComplianceConfig
from llm_comply.http import close_client
from llm_comply.schema import SpecLoader
from llm_comply.tests import get_tests

from tests.mock_provider import aimock, mock_provider
from tests.pod import KEY, Pod, policy

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

SPECS = Path(llm_comply.__file__).parent / "specs"


@dataclass(frozen=True)
class Suite:
    """
    Attributes:
        name: As llm-comply calls the API.
        model: Which model is asked.
        spec: File of schemas, or None.
        root: What its paths are put behind.
        header: Where its key goes.
        headers: Others that it needs.
    """

    name: str
    model: str
    spec: str | None
    root: str = "/v1"
    header: str = "Authorization"
    headers: dict[str, str] | None = None


SUITES = [
    Suite("openai-chat", "gpt-4o", "openai_chat.json"),
    Suite("open-responses", "gpt-4.1", "openresponses.json"),
    Suite(
        "anthropic",
        "claude-sonnet-5",
        "anthropic.json",
        header="x-api-key",
        headers={"anthropic-version": "2023-06-01"},
    ),
    Suite("google-genai", "gemini-2.5-flash", None, "", "x-goog-api-key"),
]
# Each answer has one of its own.
ID = re.compile(r"'\w+_[0-9A-Za-z]{12,}'")
# Where each mock has Anthropic's API, and Google's.
MOCKS = {"aimock": ("", ""), "llmock": ("/anthropic", "/gemini")}


@dataclass(frozen=True)
class Bench:
    """
    Attributes:
        pod: In front of the mock.
        addresses: Of the mock itself: of its APIs by llm-comply's name.
    """

    pod: Pod
    addresses: dict[str, str]


def at_mock(addresses: dict[str, str]) -> dict[str, Any]:
    """Return a policy whose providers are at *addresses*."""
    content = policy(0)
    providers = content["providers"]
    providers["openai"]["base_url"] = addresses["openai-chat"]
    # The mocks have no such path, and both should hear so from them.
    providers["openai"]["unknown_paths"] = ["POST /v1/responses/compact"]
    providers["anthropic"]["base_url"] = addresses["anthropic"]
    providers["google"] = {
        "base_url": addresses["google-genai"],
        "dialect": "gemini",
        "credential": "env:OPENAI_API_KEY",
    }
    content["models"] |= {
        "gpt-4.1": {"provider": "openai"},
        "gemini-2.5-flash": {"provider": "google"},
    }
    return content


@contextlib.contextmanager
def running(mock: str) -> Iterator[int]:
    """Run *mock*, and yield its port."""
    with aimock() if mock == "aimock" else mock_provider() as port:
        yield port


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=list(MOCKS))
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """Give the module a pod in front of each mock."""
    anthropic, google = MOCKS[request.param]
    with running(request.param) as port:
        base = f"http://127.0.0.1:{port}"
        addresses = {
            "openai-chat": base,
            "open-responses": base,
            "anthropic": base + anthropic,
            "google-genai": base + google,
        }
        async with Pod.start(at_mock(addresses)) as pod:
            yield Bench(pod, addresses)
    close_client()


@dataclass(frozen=True)
class Verdict:
    """What llm-comply says of one test."""

    test: str
    status: str
    errors: list[str]
    warnings: list[str]


def verdicts(suite: Suite, address: str) -> dict[str, Verdict]:
    """Run *suite* against the API at *address*."""
    config = ComplianceConfig(
        base_url=address + suite.root,
        api_key=KEY,
        model=suite.model,
        auth_header=suite.header,
        use_bearer_prefix=suite.header == "Authorization",
        extra_headers=suite.headers,
    )
    spec = SpecLoader(str(SPECS / suite.spec) if suite.spec else None)
    results = runner.TestRunner(config, get_tests(suite.name), spec).run_all().results
    return {
        result.id: Verdict(
            result.id,
            result.status.value,
            [ID.sub("an id", error) for error in result.errors],
            result.warnings,
        )
        for result in results
    }


@pytest.mark.parametrize("suite", SUITES, ids=lambda each: each.name)
async def test_the_same_with_and_without_the_pod(bench: Bench, suite: Suite) -> None:
    """
    Every test comes to the same, with the same words.

    But for bad requests: some mocks take them, and the pod may be stricter.
    """
    direct = await asyncio.to_thread(verdicts, suite, bench.addresses[suite.name])
    root = bench.pod.url.removesuffix("/v1")
    through = await asyncio.to_thread(verdicts, suite, root)

    assert len(direct) >= 9
    assert any(verdict.status == "passed" for verdict in direct.values())
    for name in direct:
        stricter = name.endswith("error-handling") and through[name].status == "passed"
        assert stricter or through[name] == direct[name]
    await bench.pod.settled()
