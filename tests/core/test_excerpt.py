"""What is kept of a body is read back as its very bytes; nonsense is a fault."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.excerpt import Excerpt, Unit, read_excerpt

RS, US = "\x1e", "\x1f"
HEAD = f"?text/event-stream{US}gzip{US}12{US}1000000{RS}"


def read(*records: str, **more: object) -> Excerpt:
    """Return what *records* say, behind a head."""
    return read_excerpt({"b0": HEAD + RS.join((*records, "")), **more})


def test_nothing() -> None:
    """Where nothing was written, nothing is known."""
    assert read_excerpt({}) == Excerpt()
    assert read_excerpt({}).decisive() == []


def test_head_and_end() -> None:
    """What the provider's head said is there, how much passed, and that it ended."""
    assert read("=data: 1\n\n", "@5 1 9", "@7 1 9", ".") == Excerpt(
        content_type="text/event-stream",
        content_encoding="gzip",
        content_length="12",
        head_us=1_000_000,
        units=(Unit(b"data: 1\n\n", 1_000_005),),
        seen_bytes=9,
        seen_units=1,
        whole=True,
    )


def test_blocks_in_order() -> None:
    """Records go on in the next block, and end in the tail."""
    excerpt = read(
        "=a", b2="=c" + RS, b1="=b" + RS, tail=f"+7 90{RS}=z{RS}@9 11 99{RS}"
    )

    assert [unit.data for unit in excerpt.units] == [b"a", b"b", b"c", b"z"]
    assert (excerpt.gap_at, excerpt.gap_bytes) == (3, 90)
    assert (excerpt.seen_units, excerpt.seen_bytes, excerpt.whole) == (11, 99, False)


def test_templates() -> None:
    """A unit is its values between the pieces of the template before it."""
    excerpt = read("~<", ":", f"~a{US}b{US}", f":1{US}é", "~<", ":")

    assert [unit.data for unit in excerpt.units] == [b"<", "a1bé".encode(), b"<"]
    assert all(unit.routine for unit in excerpt.units)


@given(st.binary())
def test_bytes(data: bytes) -> None:
    """What is no text is read back, whatever it is."""
    odd = {0: 0x100, 0x1E: 0x11E, 0x1F: 0x11F}
    [unit] = read("#" + data.decode("latin-1").translate(odd)).units

    assert unit.data == data


def test_what_is_left_out() -> None:
    """Bytes that a unit has lost, and units that are not there, are counted."""
    excerpt = read("-70", "=short", "!2000000", "=a")

    assert [unit.elided_bytes for unit in excerpt.units] == [70, 0]
    assert excerpt.left_out == 1


def test_moments() -> None:
    """A unit has the first moment that was written behind it."""
    excerpt = read("=a", "=b", "@5 2 2", "=c", "@9 3 3")

    assert [unit.at_us - excerpt.head_us for unit in excerpt.units] == [5, 5, 9]


@pytest.mark.parametrize(
    "template",
    [
        f'{{"usage":{US}}}',
        '{"usage":{"a":1},',
        '{"usageMetadata": {',
        '{"x_groq":{"usage":{',
        '{"finish_reason":"',
        '{"stopReason":"x"',
        '{"error":{',
        "event: error\n",
        f"event: x{US}\n",
        f'{{"type":"{US}"',
        f'{{"model":"{US}"',
        '{"promptTokenCount":3',
        '{"output_tokens":3',
    ],
)
def test_what_tells(template: str) -> None:
    """Units that can differ in more than text are no routine."""
    excerpt = read(f"~{template}", *[":" + US.join("x" * template.count(US))] * 3)

    assert excerpt.decisive() == list(excerpt.units)
    assert len(excerpt.units) == 3


@pytest.mark.parametrize(
    "template",
    [
        f'{{"usage":null,"content":"{US}"',
        f'{{"usage": null,"content":"{US}"',
        f'{{"finish_reason":null,"reasoning_content":"{US}"',
        f'{{"error":null,"type":"delta","content":"{US}"',
        f'event: content_block_delta\ndata: {{"text":"{US}"',
    ],
)
def test_what_does_not_tell(template: str) -> None:
    """Of units that only have another text, the last stands for all in a row."""
    records = [f"~{template}", "=a", ":1", ":2", ":3", "=b", ":4", "=c", ":5", ":6"]
    excerpt = read(*records)

    kept = [excerpt.units.index(unit) for unit in excerpt.decisive()]
    assert kept == [0, 3, 4, 5, 6, 8]


@pytest.mark.parametrize(
    "record",
    ["", "?", f"?a{US}b{US}c{US}x", "x", "@", "@1 2", "@1 2 x", "+1", "-x", ":a", "#Ѐ"],
)
def test_nonsense(record: str) -> None:
    """A record that can't be read is a fault, and costs no other."""
    excerpt = read("=a", record, "=b")

    assert excerpt.fault
    assert [unit.data for unit in excerpt.units][::-1][:1] == [b"b"]


@pytest.mark.parametrize("record", [f":1{US}2{US}3", ":1"])
def test_values_that_do_not_fit(record: str) -> None:
    """So is a unit with too many values, or too few."""
    assert read(f"~a{US}b{US}c", record).fault


def test_faults() -> None:
    """What the filter says of itself counts; what is no text is not read."""
    assert read_excerpt({"fault": True}).fault
    assert read_excerpt({"b0": 7.0, "tail": "=a" + RS}).units[0].data == b"a"


@given(st.dictionaries(st.sampled_from(["b0", "b1", "tail"]), st.text()))
def test_any_text(fields: dict[str, str]) -> None:
    """Whatever is there, nothing is raised."""
    excerpt = read_excerpt(fields)

    assert len(excerpt.decisive()) <= len(excerpt.units)
