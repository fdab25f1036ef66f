"""
The Lua scripts: what runs in Redis.

A script is made of constants, parts that are shared, and one verb. The constants
come from the core and from `keys`, so that no number stands in two places.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from tokenweir.core import (
    bucket,
    budget,
    holding,
    record,
    record_book,
    slots,
    stagger,
)
from tokenweir.ledger import keys

_PARTS = ("prelude", "levels", "rollups", "holding", "leasing")

# More limits, labels or figures than any call has; and a moment far in the future.
_MAX_PAIRS = 1_000
_MAX_MOMENT_MS = 10**14

_CONSTANTS: Mapping[str, int | str | Sequence[str]] = {
    "FORMAT": keys.FORMAT,
    "UNITS_PER_TOKEN": bucket.UNITS_PER_TOKEN,
    "MAX_TOKENS": bucket.MAX_TOKENS,
    "MAX_SPENT": budget.MAX_SPENT,
    "TURNS": budget.TURNS,
    "SPENDING_KEPT_MS": budget.KEPT_MS,
    "UNKNOWN_WAIT_MS": slots.UNKNOWN_WAIT_MS,
    "MIN_WAIT_MS": slots.MIN_WAIT_MS,
    "MAX_DURATION_MS": slots.MAX_DURATION_MS,
    "WINDOW_MS": stagger.WINDOW_MS,
    "PATIENCE_MS": stagger.PATIENCE_MS,
    "REPLAY_MS": holding.REPLAY_MS,
    "TOMBSTONE_MS": holding.TOMBSTONE_MS,
    "REAPED_PER_CALL": holding.REAPED_PER_CALL,
    "MAX_RATE": holding.MAX_RATE,
    "HOUR_MS": record.HOUR_MS,
    "TALLY_HOURS": record_book.TALLY_HOURS,
    "SEPARATOR": record.SEPARATOR,
    "LABELS": record.LABELS,
    "CLASSES": record.CLASSES,
    "GROUP": record.GROUP,
    "WITH_USER": record.WITH_USER,
    "RETRACTED": record.RETRACTED,
    "BUCKET_GRACE_MS": keys.BUCKET_GRACE_MS,
    "CURSOR_GRACE_MS": keys.CURSOR_GRACE_MS,
    "HOLD_KEPT_MS": keys.HOLD_KEPT_MS,
    "EPOCH_KEPT_MS": keys.EPOCH_KEPT_MS,
    "LEARNED_KEPT_MS": keys.LEARNED_KEPT_MS,
    "RECORD_KEPT_MS": keys.RECORD_KEPT_MS,
    "ROLLUP_KEPT_MS": keys.ROLLUP_KEPT_MS,
    "USERS_KEPT_MS": keys.USERS_KEPT_MS,
    "MAX_PAIRS": _MAX_PAIRS,
    "MAX_MOMENT_MS": _MAX_MOMENT_MS,
}


@dataclass(frozen=True, slots=True)
class Script:
    """
    Attributes:
        name: Of the verb, such as ``"reserve"``.
        source: What Redis is given.
        sha: What it is called by from then on.
        is_rooted: Whether KEYS[1] is what the names of all its keys begin with; else it
            is the only key. Then KEYS[2] is `tokenweir.ledger.keys.guard` of it.
    """

    name: str
    source: str
    sha: str
    is_rooted: bool = False


def script_of(name: str, source: str, *, is_rooted: bool = False) -> Script:
    """Return the script of that *source*."""
    # Redis's own name for a script; no secret is protected by it.
    sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    return Script(name, source, sha, is_rooted)


def _verb(name: str) -> Script:
    parts = (_constants(), *map(_read, (*_PARTS, name)))
    return script_of(name, "\n".join(parts), is_rooted=True)


def _read(name: str) -> str:
    return (
        resources.files("tokenweir.ledger").joinpath("lua", f"{name}.lua").read_text()
    )


def _constants() -> str:
    return "\n".join(f"local {name} = {_lua(v)}" for name, v in _CONSTANTS.items())


def _lua(value: int | str | Sequence[str]) -> str:
    match value:
        case int():
            return str(value)
        case str():
            return '"' + "".join(f"\\{byte:03d}" for byte in value.encode()) + '"'
        case _:
            return "{" + ", ".join(map(_lua, value)) + "}"


RESERVE = _verb("reserve")
EXTEND = _verb("extend")
SETTLE = _verb("settle")
CANCEL = _verb("cancel")
GIVE_BACK = _verb("give_back")
SWEEP = _verb("sweep")
TALLY = _verb("tally")
LOOK = _verb("look")
HOUR = _verb("hour")
AMEND = _verb("amend")
MEND = _verb("mend")
LEASE = script_of("lease", _read("lease"))
PROMPTS = script_of("prompts", _read("prompts"), is_rooted=True)
CALIBRATION = script_of("calibration", _read("calibration"))
