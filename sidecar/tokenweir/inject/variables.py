"""
What apps are told: where to call, and with which key.

Official SDKs read these variables, so that no app is changed. The address is 127.0.0.1,
for on some systems localhost is ::1 first. A variable that an app has already is its
own: it is left alone, and the status tells.

Keys. An SDK without one does not start. Where the pod has no key of its own, it gets a
word that is none: a policy, or a pod, of one tenant needs no key, and others refuse it by
name. Where a container takes variables from a whole ConfigMap or Secret (``envFrom``),
keys may be in there, and what is set beside would win over them: so none is set, unless
the pod's key was named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenweir.inject.settings import Settings

# Tells whoever finds it in a log or a refusal what it is.
PLACEHOLDER = "sk-tokenweir-sidecar"


@dataclass(frozen=True, slots=True)
class Api:
    """
    What SDKs of one API read.

    Attributes:
        base_urls: By variable, what follows the address: OpenAI's SDKs want the
            version, others add it.
        key: The variable of the key.
        instead: Variables that say who calls, too: beside one of them a key would be a
            second one, which is refused.
    """

    base_urls: Mapping[str, str]
    key: str
    instead: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All that is set for it."""
        return (*self.base_urls, self.key)


# By the words of the option `apis`. OPENAI_API_BASE is LangChain's and LiteLLM's.
APIS: Mapping[str, Api] = {
    "openai": Api(
        {"OPENAI_BASE_URL": "/v1", "OPENAI_API_BASE": "/v1"}, "OPENAI_API_KEY"
    ),
    "anthropic": Api(
        {"ANTHROPIC_BASE_URL": ""}, "ANTHROPIC_API_KEY", ("ANTHROPIC_AUTH_TOKEN",)
    ),
    "azure": Api(
        {"AZURE_OPENAI_ENDPOINT": ""},
        "AZURE_OPENAI_API_KEY",
        ("AZURE_OPENAI_AD_TOKEN",),
    ),
    "gemini": Api(
        {"GOOGLE_GEMINI_BASE_URL": ""}, "GEMINI_API_KEY", ("GOOGLE_API_KEY",)
    ),
    "bedrock": Api(
        {"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": ""}, "AWS_BEARER_TOKEN_BEDROCK"
    ),
}


def missing(container: Mapping[str, Any], settings: Settings) -> list[dict[str, Any]]:
    """Return the entries of ``env`` that *container* has not, and should have."""
    has = _names(container)
    unseen = bool(container.get("envFrom")) and settings.api_key is None
    entries = []
    for word in settings.apis:
        api = APIS[word]
        for name, path in api.base_urls.items():
            if name not in has:
                url = f"http://127.0.0.1:{settings.port}{path}"
                entries.append({"name": name, "value": url})
        if not (unseen or has & {api.key, *api.instead}):
            entries.append({"name": api.key, **_key(settings)})
    return entries


def kept(
    container: Mapping[str, Any], settings: Settings, ours: frozenset[str]
) -> list[str]:
    """Return what of this *container* had before, by name; *ours* is what we set."""
    has = _names(container) - ours
    return [name for word in settings.apis for name in APIS[word].names if name in has]


def _names(container: Mapping[str, Any]) -> set[str]:
    return {str(entry.get("name")) for entry in container.get("env") or ()}


def _key(settings: Settings) -> dict[str, Any]:
    key = settings.api_key
    if key is None:
        return {"value": PLACEHOLDER}
    return {"valueFrom": {"secretKeyRef": {"name": key.name, "key": key.key}}}
