"""`docs/policy.md` is about the policy that there is."""

from __future__ import annotations

import pathlib
import re
from typing import get_args

import pytest
import yaml
from pydantic.fields import FieldInfo

from tests.config.policies import CANARY, load
from tokenweir.config.advice import advise
from tokenweir.config.money import MAX_USD
from tokenweir.config.scalar import MAX_CONCURRENCY, RouteName
from tokenweir.config.shape import Place, all_fields
from tokenweir.core.bucket import MAX_TOKENS
from tokenweir.core.budget import MAX_SPENT
from tokenweir.core.model_family import FAMILIES
from tokenweir.core.policy import PARTITION_KEYS

REFERENCE = pathlib.Path(__file__).parents[2] / "docs" / "policy.md"
TEXT = REFERENCE.read_text(encoding="utf-8")
EXAMPLES = re.findall(
    r"^```yaml\n(version: 1\n.*?)^```$", TEXT, re.MULTILINE | re.DOTALL
)
SECRETS = dict.fromkeys(
    ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "WEBHOOK_SECRET"), CANARY
)


def default_of(info: FieldInfo) -> str:
    """Return what the reference shows as the default of a field."""
    if info.is_required():
        return "needed"
    extra = info.json_schema_extra
    shown = extra.get("default") if isinstance(extra, dict) else None
    default = info.default if shown is None else shown
    if default is None or info.default_factory is not None:
        return "-"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def row_of(place: Place, info: FieldInfo) -> str:
    """Return the line of a field."""
    return f"| `{place[-1]}` | {default_of(info)} | {info.description} |"


def section(place: Place) -> str:
    """Return the part of the reference that is about the entry at *place*."""
    heading = "## `" + ".".join(place) + "`" if place else "## The file"
    assert TEXT.count(f"\n{heading}\n") == 1, heading
    return TEXT.partition(f"\n{heading}\n")[2].partition("\n## ")[0]


FIELDS = dict(all_fields())


@pytest.mark.parametrize("place", FIELDS, ids=".".join)
def test_every_field_has_its_line(place: Place) -> None:
    """With the default and the description that the schema has."""
    # The fields of a quota are the same at the top, in a tenant and in a key.
    entry = place[:-1]
    if "quotas" in entry:
        entry = ("tenants", "*", *entry[entry.index("quotas") :])

    assert row_of(place, FIELDS[place]) in section(entry).splitlines()


def test_no_line_is_left_over() -> None:
    """A field that is gone is gone from the reference too."""
    rows = {row_of(place, info) for place, info in FIELDS.items()}
    lines = [line for line in TEXT.splitlines() if re.match(r"\| `\w+` \| ", line)]

    assert set(lines) == rows
    assert len(lines) == len(rows)


def test_there_are_examples() -> None:
    """A short one to begin with, and one with everything."""
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_example_is_a_policy(tmp_path: pathlib.Path, text: str) -> None:
    """It loads as it stands, and nothing in it is probably not meant."""
    policy = load(tmp_path, text, SECRETS)

    assert all("shadow mode" in line for line in advise(policy))


def test_the_long_example_shows_every_section() -> None:
    """What can stand at the top stands there, but for what excludes the rest."""
    sections = {place[0] for place in FIELDS if len(place) == 1}

    assert sections - yaml.safe_load(EXAMPLES[1]).keys() == {"single_tenant"}


def test_what_is_told_is_what_is_checked() -> None:
    """The largest amounts, and the words that have a fixed list."""
    assert f"{MAX_TOKENS:,}" in TEXT
    assert f"{MAX_CONCURRENCY:,}" in TEXT
    assert f"{MAX_USD:,} USD" in TEXT
    assert f"{MAX_SPENT:,} tokens" in TEXT
    for word in (*FAMILIES, *get_args(RouteName), *PARTITION_KEYS):
        assert f"`{word}`" in TEXT
