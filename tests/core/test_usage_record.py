"""Records as they are read back, and what is best known of an exchange."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ledger.builders import hold, used
from tokenweir.core.hold import Amounts
from tokenweir.core.record import RETRACTED, labels_of, lost_record, record_of
from tokenweir.core.usage_record import (
    Exchange,
    Exchanges,
    UsageRecordError,
    exchange_of,
)

SETTLED = {
    **record_of(hold(1), replace(used(40, 20), cost_nanousd=77)),
    "reserved_at_ms": "1700000000000",
    "correction": "0",
}
LOST = {
    **lost_record(labels_of(hold(1)), Amounts(1, 40, 5, 9), 1_000),
    "reserved_at_ms": "1700000000000",
    "correction": "0",
}


def settled(entry: str = "5-0", **changes: str) -> Exchange:
    """An exchange that was settled."""
    return exchange_of({**SETTLED, **changes}, entry)


def lost(entry: str = "5-0", **changes: str) -> Exchange:
    """One that nobody settled."""
    return exchange_of({**LOST, **changes}, entry)


def known(*exchanges: Exchange) -> tuple[Exchange, int]:
    """What is known of the exchange, and as how many it is told."""
    found = Exchanges()
    for each in exchanges:
        found.add(each)
    (best,) = found
    return best, found.counted(best)


def test_corrections_only() -> None:
    """What they correct was told as one, and is gone."""
    found = known(settled("5-0", correction="1"), settled("6-0", correction="1"))

    assert found == (settled("6-0", correction="1"), 1)


def test_a_record_is_read() -> None:
    """All that budgets go by, tokens of all classes in one."""
    made = exchange_of({**SETTLED, "cached_input_tokens": "7"}, "12-3", "export")

    assert (made.hold_id, made.at_ms) == (hold(1).id, 1_700_000_000_000)
    assert (made.tokens, made.cost_nanousd) == (67, 77)
    assert (made.spender.tenant, made.spender.model) == ("acme", "gpt-4o")
    assert (made.entry, made.source) == ((12, 3), "export")
    assert not any((made.is_lost, made.corrects, made.is_retracted))


def test_numbers_are_as_good_as_text() -> None:
    """Exports have numbers, and null where nothing was measured."""
    numbers = {
        name: int(text) if text.isdecimal() and name != "correction" else text
        for name, text in SETTLED.items()
    }

    assert exchange_of({**numbers, "route": None}, "5-0") == settled(route="")


def test_older_records_lack_fields() -> None:
    """What was not known then is not there."""
    old = {
        name: text
        for name, text in SETTLED.items()
        if name not in ("downgraded_from", "policy", "flags", "audio_input_tokens")
    }

    assert exchange_of(old, "5-0") == settled()


@pytest.mark.parametrize("name", ["hold", "tenant", "outcome", "reserved_at_ms"])
def test_what_is_no_record(name: str) -> None:
    """It is told what is missing, and nothing of what is there."""
    short = {field: text for field, text in SETTLED.items() if field != name}

    with pytest.raises(UsageRecordError, match=f"has no {name}"):
        exchange_of(short, "5-0")


@pytest.mark.parametrize(
    ("changes", "entry"),
    [({"cost_nanousd": "much"}, "5-0"), ({"output_tokens": "1.5"}, "5-0"), ({}, "x")],
)
def test_figures_that_are_none(changes: dict[str, str], entry: str) -> None:
    """Whatever is no whole number is refused, an entry's id too."""
    with pytest.raises(UsageRecordError, match="no number"):
        exchange_of({**SETTLED, **changes}, entry)


def test_a_correction_replaces_an_estimate() -> None:
    """Whichever is read first; it is one exchange."""
    early, late = lost("5-0"), settled("9-0", correction="1")

    assert known(early, late) == known(late, early) == (late, 1)


def test_what_was_settled_is_not_lost_by_an_older_snapshot() -> None:
    """The reaper's estimate comes later, but the settle before it was right."""
    early, late = settled("5-0"), lost("9-0")

    assert known(early, late) == known(late, early) == (early, 2)


def test_copies_are_one() -> None:
    """An export and the stream have the same entry."""
    assert known(settled(), settled()) == (settled(), 1)
    twice = [settled("5-0"), settled("6-0"), settled("5-0"), settled("6-0")]
    assert known(*twice) == (settled("6-0"), 2)


def test_what_was_given_back_is_no_exchange() -> None:
    """It was lost and then cancelled: sums do not tell it any more."""
    back = lost("9-0", flags=RETRACTED, correction="1")

    assert known(lost("5-0"), back) == (back, 0)
