"""The JSON Schema is printed as it is published."""

from __future__ import annotations

import json
import pathlib

import pytest

from tokenweir.cli.main import main
from tokenweir.config.json_schema import json_schema

PUBLISHED = pathlib.Path(__file__).parents[2] / "docs" / "policy.schema.json"


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Redirected into a file, it is that of the docs."""
    assert main(["schema"]) == 0
    out = capsys.readouterr().out

    assert json.loads(out) == json_schema()
    assert out == PUBLISHED.read_text(encoding="utf-8")
