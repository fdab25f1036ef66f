"""
What is written about an exchange once it has ended.

A record is flat text, one entry of a usage stream. A record always has the same
fields, in the same order: streams store such entries at half the size, and no reader
has to ask which are there.

Rollups are sums of the same figures by hour, tenant, key, model, provider and route.
Exchanges that name an end user are summed a second time, by user too. Those sums are
kept for a shorter time; the figure `WITH_USER` says how many exchanges they should
tell of, so that "nobody named" is never mistaken for "no longer known".

The ledger adds two fields, since only it knows them: `reserved_at_ms`, by its own
clock, and `correction`: ``"1"`` if this record replaces the one that was written
before under the same hold id.

WARNING: `ledger/lua/holding.lua` writes the record of a lost exchange too. Change
both, and run `tests/ledger/test_parity.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from tokenweir.core.bucket import bounded
from tokenweir.core.budget import affordable
from tokenweir.core.hold import CAP_REACHED, Amounts, Hold, Outcome, Settlement
from tokenweir.core.partition import user_code
from tokenweir.core.pricing import UNPRICED
from tokenweir.core.usage import Source, TokenUsage

HOUR_MS = 3_600_000
# Stands between the names in a rollup's field. No name contains a control character;
# should one do so all the same, it is written as a blank.
SEPARATOR = "\x1f"
# What is known from the beginning, in the order in which records have it.
LABELS = (
    "hold",
    "tenant",
    "key",
    "user",
    "route",
    "model",
    "provider",
    "request_id",
    "policy",
    "downgraded_from",
    "capped_from",
    "output_cap",
    "path",
)
# What sums are kept apart by.
GROUP = ("tenant", "key", "model", "provider", "route")
# Figure: exchanges that name an end user.
WITH_USER = "with_user"
CLASSES = tuple(field.name for field in fields(TokenUsage))
# Figures of a record that rollups add up as they are.
SUMMED = ("requests", *CLASSES, "cost_nanousd", "saved_nanousd", "cap_saved_nanousd")
# Flag of the record of an exchange that was taken for lost, and was never forwarded.
RETRACTED = "cancelled"


def labels_of(hold: Hold) -> dict[str, str]:
    """Return what is known of an exchange from its beginning."""
    subject = hold.subject
    values = (
        hold.id,
        subject.tenant,
        subject.key_id,
        user_code(subject.tenant, subject.user),
        subject.route,
        subject.model,
        subject.provider,
        subject.request_id,
        subject.policy,
        subject.downgraded_from,
        subject.capped_from,
        subject.output_cap,
        subject.path,
    )
    return {
        name: value.replace(SEPARATOR, " ")
        for name, value in zip(LABELS, values, strict=True)
    }


def record_of(hold: Hold, settlement: Settlement) -> dict[str, str]:
    """Return the record of an exchange that was settled."""
    first_token_ms = settlement.first_token_ms
    return labels_of(hold) | {
        "requests": str(bounded(settlement.requests)),
        **{name: str(tokens) for name, tokens in _classes(settlement.usage).items()},
        "source": settlement.source,
        "outcome": settlement.outcome,
        "status": str(settlement.status),
        "answered_by": settlement.model or "",
        "duration_ms": str(settlement.duration_ms),
        "first_token_ms": "" if first_token_ms is None else str(first_token_ms),
        "flags": ",".join(settlement.flags),
        "cost_nanousd": str(affordable(settlement.cost_nanousd)),
        "saved_nanousd": str(affordable(settlement.saved_nanousd)),
        "cap_saved_nanousd": str(affordable(settlement.cap_saved_nanousd)),
    }


def lost_record(
    labels: Mapping[str, str], amounts: Amounts, elapsed_ms: int, flags: str = ""
) -> dict[str, str]:
    """Return the record of an exchange that nobody settled, as far as is known."""
    return dict(labels) | {
        "requests": str(amounts.requests),
        **dict.fromkeys(CLASSES, "0"),
        "input_tokens": str(amounts.input_tokens),
        "output_tokens": str(amounts.output_tokens),
        "source": Source.ESTIMATED,
        "outcome": Outcome.LOST,
        "status": "0",
        "answered_by": "",
        "duration_ms": str(elapsed_ms),
        "first_token_ms": "",
        "flags": flags,
        "cost_nanousd": str(amounts.cost_nanousd),
        "saved_nanousd": "0",
        "cap_saved_nanousd": "0",
    }


def increments_in(record: Mapping[str, str]) -> dict[str, int]:
    """
    Return what the exchange of *record* is in rollups, without zeros.

    That is nothing if it was lost and then cancelled: see `RETRACTED`.
    """
    flags = record["flags"].split(",")
    if record["outcome"] == Outcome.LOST and RETRACTED in flags:
        return {}
    return _without_zeros(
        {
            "exchanges": 1,
            WITH_USER: int(bool(record["user"])),
            **{name: int(record[name]) for name in SUMMED},
            "downgraded": int(bool(record["downgraded_from"])),
            "capped": int(bool(record["capped_from"])),
            CAP_REACHED: int(CAP_REACHED in flags),
            UNPRICED: int(UNPRICED in flags),
            f"outcome_{record['outcome']}": 1,
            f"source_{record['source']}": 1,
            **_unreported(record),
        }
    )


def difference(new: Mapping[str, int], old: Mapping[str, int]) -> dict[str, int]:
    """Return what turns the sums of *old* into those of *new*, without zeros."""
    return _without_zeros(
        {name: new.get(name, 0) - old.get(name, 0) for name in {**new, **old}}
    )


def group_of(labels: Mapping[str, str]) -> str:
    """Return whose rollup a record goes into: the values of `GROUP`."""
    return SEPARATOR.join(labels[name] for name in GROUP)


def hour_of(moment_ms: int) -> int:
    """Return the hour since 1970 (UTC) that *moment_ms* is in."""
    return moment_ms // HOUR_MS


def _unreported(record: Mapping[str, str]) -> dict[str, int]:
    """Return all tokens of a record, under their source, if that is not the provider."""
    if record["source"] == Source.REPORTED:
        return {}
    return {f"tokens_{record['source']}": sum(int(record[name]) for name in CLASSES)}


def _classes(usage: TokenUsage) -> dict[str, int]:
    return {name: bounded(getattr(usage, name)) for name in CLASSES}


def _without_zeros(figures: dict[str, int]) -> dict[str, int]:
    return {name: figure for name, figure in figures.items() if figure}
