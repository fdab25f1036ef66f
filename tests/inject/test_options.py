"""What can be said of a pod's sidecars is read, or refused by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tokenweir.inject.names import INJECTED_LABEL, STATUS_ANNOTATION
from tokenweir.inject.options import (
    BY_NAME,
    OPTIONS,
    OptionError,
    settings_for,
    settings_with,
)
from tokenweir.inject.settings import KeyIn, Mode, Resources, Settings

PAGE = Path(__file__).parents[2] / "docs/kubernetes/injection.md"

VALUES: dict[str, tuple[str, Any]] = {
    "tenant": ("acme", "acme"),
    "policy": ("configmap:p/my.yaml", KeyIn("p", "my.yaml")),
    "ledger-secret": ("redis/uri", KeyIn("redis", "uri")),
    "credentials-secret": ("keys", "keys"),
    "certificates-secret": ("pair", "pair"),
    "key-secret": ("mine", KeyIn("mine", "key")),
    "containers": ("app, worker", ("app", "worker")),
    "apis": ("openai,gemini", ("openai", "gemini")),
    "transparent": ("api.openai.com, a:8000", ("api.openai.com", "a:8000")),
    "image": ("example.test:5000/tokenweir@sha256:ab", None),
    "image-pull-policy": ("Always", "Always"),
    "log-level": ("debug", "debug"),
    "port": ("4100", 4100),
    "admin-port": ("9100", 9100),
    "kube-version": ("v1.28.3-gke.1", (1, 28)),
    "mode": ("plain", Mode.PLAIN),
}
ATTRIBUTES = {
    "ledger-secret": "ledger",
    "credentials-secret": "credentials",
    "certificates-secret": "certificates",
    "key-secret": "api_key",
    "transparent": "guarded",
}
WRONG = {
    "tenant": "a b",
    "policy": "my-policy",
    "ledger-secret": "a/b/c",
    "credentials-secret": "Keys",
    "certificates-secret": "-",
    "key-secret": "UPPER",
    "containers": "app;worker",
    "apis": "openai,mistral",
    "transparent": "https://api.openai.com",
    "image": "a b",
    "image-pull-policy": "Sometimes",
    "log-level": "loud",
    "port": "80",
    "admin-port": "70000",
    "kube-version": "latest",
    "mode": "sidecar",
    "processor-cpu-request": "much",
    "envoy-memory-limit": "1 GB",
}


@pytest.mark.parametrize("name", VALUES)
def test_each_is_read(name: str) -> None:
    """It arrives in the settings, and nothing else changes."""
    text, expected = VALUES[name]
    attribute = ATTRIBUTES.get(name, name.replace("-", "_"))
    settings = settings_with(Settings(), {name: text})

    assert getattr(settings, attribute) == (text if expected is None else expected)
    others = {field for field in Settings.__slots__ if field != attribute}
    assert {f: getattr(settings, f) for f in others} == {
        f: getattr(Settings(), f) for f in others
    }


def test_resources() -> None:
    """Each of eight quantities has an option; an empty one says nothing."""
    given = {
        f"{container}-{what}-{kind}": f"{index}Mi"
        for container in ("processor", "envoy")
        for index, (what, kind) in enumerate(
            [("cpu", "request"), ("cpu", "limit"), ("memory", "request")]
        )
    }
    settings = settings_with(Settings(), {**given, "envoy-memory-limit": ""})

    assert settings.processor == Resources("0Mi", "1Mi", "2Mi", "512Mi")
    assert settings.envoy == Resources("0Mi", "1Mi", "2Mi", "")


@pytest.mark.parametrize("name", WRONG)
def test_each_is_checked(name: str) -> None:
    """What can't be is refused, by its name, without a word of it."""
    with pytest.raises(OptionError) as caught:
        settings_with(Settings(), {name: WRONG[name]})

    (problem,) = caught.value.problems
    assert problem.startswith(f"{name}: must be ")


def test_what_is_optional_may_be_empty() -> None:
    """No Secret, no tenant, no key."""
    names = ("tenant", "credentials-secret", "certificates-secret", "key-secret")
    settings = settings_with(Settings(), dict.fromkeys(names, ""))

    assert (settings.credentials, settings.api_key) == ("", None)


def test_defaults_of_keys() -> None:
    """A name alone means the usual entry."""
    given = {"policy": "configmap:p", "ledger-secret": "l", "key-secret": "k"}
    settings = settings_with(Settings(), given)

    assert settings.policy == KeyIn("p", "policy.yaml")
    assert settings.ledger == KeyIn("l", "url")
    assert settings.api_key == KeyIn("k", "key")
    assert settings_with(settings, {"policy": "ledger"}).policy is None


def test_all_problems_at_once() -> None:
    """Nobody has to ask twice."""
    with pytest.raises(OptionError) as caught:
        settings_with(Settings(), {"port": "x", "mode": "y", "inject": "true"})

    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "port",
        "mode",
        "inject",
    ]
    assert "it is a label" in caught.value.problems[2]


def test_two_ports_are_two() -> None:
    """Apps and kubelets can't call the same one."""
    with pytest.raises(OptionError, match="admin-port: 4090 is where apps call"):
        settings_with(Settings(), {"port": "4090"})


def test_annotations() -> None:
    """Those with our prefix count, but for what we write ourselves."""
    annotations = {
        "tokenweir.io/port": 4100,
        STATUS_ANNOTATION: "{}",
        INJECTED_LABEL: "true",
        "example.com/port": "1",
    }

    assert settings_for(annotations, Settings()).port == 4100


def test_what_is_fixed() -> None:
    """A cluster may keep pods from choosing."""
    fixed = Settings(fixed=frozenset({"tenant", "image"}))

    with pytest.raises(OptionError, match="tenant: is fixed in this cluster"):
        settings_for({"tokenweir.io/tenant": "globex"}, fixed)
    assert settings_for({"tokenweir.io/port": "4100"}, fixed).port == 4100


def test_they_are_documented() -> None:
    """The page's table has each, with its values and its meaning, in this order."""
    rows = re.findall(
        r"^\| `(\S+)` \| (.*?) \| (.*) \|$", PAGE.read_text(), re.MULTILINE
    )
    documented = [row for row in rows if row[0] in BY_NAME]

    assert documented == [(o.name, o.values, o.meaning) for o in OPTIONS]
    assert OPTIONS[0].annotation == "tokenweir.io/tenant"
