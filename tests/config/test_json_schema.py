"""The published JSON Schema is the one that files are checked by."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from tokenweir.config.json_schema import json_schema

PUBLISHED = pathlib.Path(__file__).parents[2] / "docs" / "policy.schema.json"


def nodes(value: Any) -> list[dict[str, Any]]:
    """Return every mapping within *value*."""
    if isinstance(value, dict):
        return [value, *(node for part in value.values() for node in nodes(part))]
    if isinstance(value, list):
        return [node for part in value for node in nodes(part)]
    return []


def test_the_published_schema_is_current() -> None:
    """`tokenweir schema > docs/policy.schema.json` would change nothing."""
    text = json.dumps(json_schema(), indent=2, ensure_ascii=False)

    assert PUBLISHED.read_text(encoding="utf-8") == text + "\n"


def test_what_editors_need() -> None:
    """Unknown fields are marked, and there is a description to show for each field."""
    schema = json_schema()

    for name, entry in {"": schema, **schema["$defs"]}.items():
        assert entry["additionalProperties"] is False, name
        for field in entry["properties"].values():
            assert field["description"]
    assert schema["required"] == ["version", "providers", "models", "tenants"]


def test_null_is_nowhere() -> None:
    """A field without a value is a problem, so no schema allows it."""
    for node in nodes(json_schema()):
        assert node.get("type") != "null"
        assert node.get("default", "") is not None


def test_quotas_have_one_axis() -> None:
    """An editor marks a quota without axis, or with two."""
    axes = json_schema()["$defs"]["QuotaEntry"]["oneOf"]

    assert [axis["required"] for axis in axes][:2] == [
        ["requests_per_minute"],
        ["tokens_per_minute"],
    ]
