"""Where an admitted request goes, and what holds on its way."""

import hashlib
from pathlib import Path
from typing import Any

from tests.explain.asking import CREDENTIAL, KEY, Source, ask, body, policy
from tokenweir.core.policy import TimeoutClass
from tokenweir.core.response_path import ResponsePath
from tokenweir.envoyconf import routes
from tokenweir.explain.trial import explain
from tokenweir.explain.way import RETRIED, Way, way_of

APP_KEY = {"id": "ci", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}


async def way(folder: Path, data: bytes, asked: Any = None, **more: Any) -> Way | None:
    """Return the way of a request."""
    question = ask(policy(folder, **(asked or {})), data, **more)
    found = way_of(await explain(question, Source()))
    assert CREDENTIAL not in repr(found)
    return found


async def test_the_usual_way(tmp_path: Path) -> None:
    """By the provider's route, with its credential in place of the app's key."""
    question = ask(policy(tmp_path), body())
    cluster = question.policy.providers["openai"].cluster
    found = await way(tmp_path, body())

    assert found == Way(
        route="openai/default",
        cluster=cluster,
        method="POST",
        url="https://api.openai.com:443/v1/chat/completions",
        timeouts=TimeoutClass("default"),
        retries=2,
        is_read=True,
        path=ResponsePath.INSPECT,
        set_headers=("authorization",),
        removed_headers=(),
    )


async def test_timeouts_and_paths(tmp_path: Path) -> None:
    """A model's class of timeouts counts, and the provider's paths."""
    provider = {
        "base_url": "http://127.0.0.1:8000/gateway",
        "dialect": "openai",
        "version_path": "/v4",
    }
    asked = {
        "providers": {"own": provider},
        "models": {"gpt-4o": {"provider": "own", "timeout_class": "long"}},
        "tenants": {"acme": {"keys": [APP_KEY]}},
        "timeouts": {"long": {"total": "1h", "idle": "2m"}},
        "retries": 0,
    }
    found = await way(
        tmp_path, body(), asked, path="/v1/chat/completions?key=sk-CANARY"
    )

    assert found is not None
    assert found.url == "http://127.0.0.1:8000/gateway/v4/chat/completions"
    assert found.route == "own/long"
    assert found.timeouts == TimeoutClass("long", 3_600_000, 120_000)
    assert (found.retries, found.set_headers) == (0, ())


async def test_what_nobody_reads(tmp_path: Path) -> None:
    """Of a request without a body the answer passes unread."""
    found = await way(tmp_path, b"", path="/v1/models")

    assert found is not None
    assert (found.method, found.is_read) == ("GET", False)


async def test_no_way(tmp_path: Path) -> None:
    """What is refused goes nowhere."""
    assert await way(tmp_path, body(model="unknown")) is None
    assert await way(tmp_path, body(max_tokens=9_000, n=9)) is None


def test_what_is_tried_once_more() -> None:
    """What is said of retries is what Envoy is told."""
    told = f"{routes.RETRY_ON} {routes.RETRIED_STATUSES}"

    assert {"429", "503"} == {word for word in RETRIED if word.isdecimal()}
    assert all(word in told for word in ("connect-failure", "refused-stream"))
    assert routes.RETRIED_STATUSES == (429, 503)
