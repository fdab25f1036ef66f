"""How cost grows."""

from __future__ import annotations

import json
from pathlib import Path

from bench.gateway.capabilities import Build
from bench.gateway.scale import Point, cheapest, table, write
from bench.gateway.variants import Kind, Variant
from tests.bench.gateway.test_result import SURROUNDINGS

POINTS = [
    Point("tenants", 10, {"cpu_us_processor": 80.0}, 0),
    Point("tenants", 10_000, {"cpu_us_processor": 88.0}, 1),
    Point("workers", 2, {"per_second": 4_000.0}, 0),
]


def test_the_cheapest_that_there_is_is_measured() -> None:
    """Native before inspect, ours before grpcio."""
    least = Build(frozenset({"path:inspect", "transport:grpcio"}))
    most = Build(least.known | {"path:native", "transport:asyncio"})

    assert cheapest(least).name == "Tokenweir, inspect, limits redis, grpcio"
    assert cheapest(most).name == "Tokenweir, native, limits redis, asyncio"


def test_each_series_has_a_table_of_its_own() -> None:
    """With its own figures."""
    tables = table(POINTS).split("\n\n")

    assert len(tables) == 2
    assert tables[0].splitlines()[0] == "| tenants | cpu_us_processor | failed |"
    assert tables[0].splitlines()[3] == "| 10,000 | 88.0 | 1 |"


def test_files_tell_of_what_points_are(tmp_path: Path) -> None:
    """The variant, and how they came about."""
    variant = Variant(Kind.TOKENWEIR, "native", "redis", "asyncio")
    write(tmp_path, SURROUNDINGS, variant, POINTS)
    told = json.loads((tmp_path / "scale.json").read_text())

    assert told["variant"] == variant.name
    assert len(told["points"]) == len(POINTS)
    assert "| workers |" in (tmp_path / "scale.md").read_text()
