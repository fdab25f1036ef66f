"""Apps are told where to call, and never a second time or a second key."""

from __future__ import annotations

from typing import Any

import pytest

from tokenweir.inject.settings import API_WORDS, KeyIn, Settings
from tokenweir.inject.variables import APIS, PLACEHOLDER, kept, missing


def told(container: dict[str, Any], settings: Settings | None = None) -> dict[str, Any]:
    """Return what *container* is told, by name."""
    entries = missing(container, settings or Settings())
    return {entry["name"]: entry.get("value") for entry in entries}


def having(*names: str) -> dict[str, Any]:
    """Return a container that has variables of *names*."""
    return {"env": [{"name": name, "value": "its own"} for name in names]}


def test_addresses() -> None:
    """Each SDK gets what it expects; all of them by number, on loopback."""
    found = told({}, Settings(port=4100))

    assert found["OPENAI_BASE_URL"] == "http://127.0.0.1:4100/v1"
    assert found["OPENAI_API_BASE"] == "http://127.0.0.1:4100/v1"
    for name in (
        "ANTHROPIC_BASE_URL",
        "AZURE_OPENAI_ENDPOINT",
        "GOOGLE_GEMINI_BASE_URL",
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
    ):
        assert found[name] == "http://127.0.0.1:4100"


def test_keys() -> None:
    """Without one of its own an app gets a word; with one, a reference to it."""
    assert told({})["OPENAI_API_KEY"] == PLACEHOLDER
    entries = missing({}, Settings(api_key=KeyIn("mine", "key")))
    found = [entry for entry in entries if entry["name"] == "ANTHROPIC_API_KEY"]
    assert found == [
        {
            "name": "ANTHROPIC_API_KEY",
            "valueFrom": {"secretKeyRef": {"name": "mine", "key": "key"}},
        }
    ]


@pytest.mark.parametrize("word", APIS)
def test_its_own_stay(word: str) -> None:
    """What a container says is not said again."""
    names = APIS[word].names

    assert not set(names) & told(having(*names)).keys()
    assert kept(having(*names), Settings(), frozenset()) == list(names)
    assert kept(having(*names), Settings(), frozenset(names)) == []


@pytest.mark.parametrize(
    ("instead", "key"),
    [
        ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY"),
        ("AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_API_KEY"),
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    ],
)
def test_no_second_key(instead: str, key: str) -> None:
    """Two keys in a request are refused, so none is set beside another."""
    assert key in told({})
    assert key not in told(having(instead))


def test_unseen_keys() -> None:
    """Whole Secrets may hold a key, and what is set beside would win over it."""
    container = {"envFrom": [{"secretRef": {"name": "all"}}]}
    keys = {api.key for api in APIS.values()}

    assert told(container).keys() == told({}).keys() - keys
    assert (
        told(container, Settings(api_key=KeyIn("k", "key"))).keys() == told({}).keys()
    )


def test_some_apis() -> None:
    """Who wants one is told of one."""
    assert set(told({}, Settings(apis=("anthropic",)))) == set(APIS["anthropic"].names)
    assert tuple(APIS) == API_WORDS
