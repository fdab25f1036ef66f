"""
Names of models as prices are filed under them.

The same model has several: with a provider before it, with the date of its making
behind it, or with "latest". What stays when these are taken off is its *stem*.
"""

from __future__ import annotations

import re

# As providers write them: gpt-4o-2024-08-06, claude-sonnet-4-5-20250929 or @20250929,
# gpt-4-0613, gemini-2.5-pro-preview-06-05 and -05-2026, mistral-large-2411, and the
# revisions of Bedrock (-v1:0) and Gemini (-001).
_DATE = (
    r"20\d\d-?\d\d-?\d\d|\d\d-20\d\d|\d\d-\d\d(?:-20\d\d)?|\d{3,4}|v\d+(?::\d+)?|latest"
)
# Names come from requests, so nothing is tried twice (possessive, atomic groups): dates
# can be split in several ways, and many of them in very many.
_DECORATION = re.compile(rf"(?>[-@:](?:{_DATE}|preview|exp))*+")
_DATED = re.compile(rf"(?P<stem>.+?)(?>[-@](?:{_DATE}))++")

# What Bedrock sells by tokens. Profiles of one's own, and what was trained or bought by
# the hour, have names that tell no model.
_ARN = "arn:"
_BEDROCK_ARN = re.compile(
    r"arn:aws:bedrock:(?P<region>[a-z0-9-]+):\d*:"
    r"(?P<kind>foundation-model|inference-profile)/(?P<model>[^/]+)"
)
# In the United States a model has no region before its name.
_AT_HOME = "us"
_ABROAD = {"ap": "apac"}

# litellm's and others' names of providers that genai-prices calls differently.
_PROVIDERS = {
    "azure_ai": "azure",
    "bedrock": "aws",
    "bedrock_converse": "aws",
    "fireworks_ai": "fireworks",
    "gemini": "google",
    "github_copilot": "github-copilot",
    "models": "google",
    "moonshot": "moonshotai",
    "together_ai": "together",
    "vertex_ai": "google",
    "voyage": "voyageai",
    "xai": "x-ai",
}


def is_decoration(rest: str) -> bool:
    """Tell if *rest*, behind a model's name, says no more than which make of it."""
    return _DECORATION.fullmatch(rest) is not None


def stem(name: str) -> str:
    """Return *name* without the date or "latest" at its end."""
    found = _DATED.fullmatch(name)
    return found["stem"] if found else name


def split_provider(name: str) -> tuple[str, str]:
    """Return the part of *name* up to the first slash, and the rest; ``""`` if none."""
    before, slash, rest = name.partition("/")
    return (before.lower(), rest) if before and slash and rest else ("", name)


def model_of_arn(name: str) -> str | None:
    """
    Return the model, in lower case, that *name* is: as it is, or what an ARN names.

    None: the ARN names none. A model abroad is called so, as its profiles are: it may
    cost more there.
    """
    lower = name.lower()
    if not lower.startswith(_ARN):
        return lower
    found = _BEDROCK_ARN.fullmatch(lower)
    if found is None:
        return None
    part, _, _ = found["region"].partition("-")
    if found["kind"] == "inference-profile" or part == _AT_HOME:
        return found["model"]
    return f"{_ABROAD.get(part, part)}.{found['model']}"


def provider_called(name: str) -> str:
    """Return what genai-prices calls the provider *name*."""
    lower = name.strip().lower()
    return _PROVIDERS.get(lower, lower)


def providers_alike(name: str) -> list[str]:
    """Return *name* and the other names of the same provider, in lower case."""
    called = provider_called(name)
    others = [other for other, meant in _PROVIDERS.items() if meant == called]
    return list(dict.fromkeys([name.strip().lower(), called, *others]))
