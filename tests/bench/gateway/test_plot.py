"""The picture."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from bench.gateway.plot import plot
from bench.gateway.summary import summarise
from tests.bench.gateway.cells import ALONE, OURS, SSE, cell, run

SVG = "{http://www.w3.org/2000/svg}"


def test_a_picture_is_well_formed_and_names_all() -> None:
    """It has a row for each variant, and says what it is of."""
    root = ET.fromstring(plot(summarise(run()), "2 cores of <this> & that"))
    texts = [text.text for text in root.iter(f"{SVG}text")]

    assert root.tag == f"{SVG}svg"
    assert {ALONE, OURS, "2 cores of <this> & that"} <= set(texts)


def test_bars_stay_inside_of_the_picture() -> None:
    """Also one that is far longer than all others: it is cut, and says so."""
    huge = cell("LiteLLM", SSE, cpu_us_proxy=100_000_000.0)
    root = ET.fromstring(plot(summarise([*run(), huge]), ""))
    width = float(root.attrib["width"])
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]

    for bar in root.iter(f"{SVG}rect"):
        assert float(bar.attrib.get("x", 0)) + float(bar.attrib["width"]) <= width
    assert [text for text in texts if text.startswith("… ")]


def test_nothing_measured_is_an_empty_picture() -> None:
    """It is well-formed all the same."""
    root = ET.fromstring(plot({}, "nothing"))

    assert len(list(root.iter(f"{SVG}rect"))) < 10
