"""How long Envoy waits: an entry of `timeouts` in the policy file."""

from __future__ import annotations

from pydantic import Field

from tokenweir.config.entry import Entry
from tokenweir.config.scalar import Duration, IdleDuration


class TimeoutEntry(Entry):
    """How long an answer may take."""

    total: Duration = Field(
        default=0,
        description="From the request's end to the answer's end, in seconds or as "
        "`10m`. 0: no limit.",
    )
    idle: IdleDuration = Field(
        default=300_000,
        description="Without a byte in either direction: seconds or `30s`. "
        "Without it: `5m`.",
        json_schema_extra={"default": "5m"},
    )
