"""
`tokenweir check --ledger`: what a ledger knows beside a policy file.

The keys that are issued there count like those of the file, and of each quota it is told
if it has applied to anything lately.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenweir.cli.usage_span import Span
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.policy import Policy

if TYPE_CHECKING:  # slow
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from tokenweir.governance.envelope import Envelope
    from tokenweir.ledger.matched import Idle


@dataclass(frozen=True, slots=True)
class Found:
    """
    What a ledger knows.

    Attributes:
        policy: The file's, with the keys that are issued.
        keys_version: Of those keys; 0: none are issued, or they were not read.
        notes: What is worth knowing about them, a line each.
        idle: Quotas that matched nothing.
        span: In these hours.
        place: Where the ledger is.
    """

    policy: Policy
    keys_version: int
    notes: tuple[str, ...]
    idle: tuple[Idle, ...]
    span: Span
    place: str


def look(
    policy: Policy, url: str, span: Span, governance_key: str | None, now_ms: int
) -> Found:
    """
    Return what the ledger at *url* knows of the quotas of *policy*.

    *governance_key* says where the public keys of those who issue keys are.

    Raises:
        LedgerUnavailableError: There was no answer.
        TokenweirError: The issued keys can't be believed or read. The text says why.
        KeyFileError: *governance_key* can't be read.
    """
    from tokenweir.config.matching import without_ended_keys  # noqa: PLC0415 -- slow
    from tokenweir.governance.key_files import public_keys  # noqa: PLC0415 -- slow
    from tokenweir.ledger.address import place  # noqa: PLC0415 -- slow

    known = public_keys(governance_key, os.environ) if governance_key else ()
    whole, version, notes = _with_issued(policy, url, known)
    working = without_ended_keys(whole, now_ms)
    idle = asyncio.run(_idle(working, url, span))
    return Found(whole, version, tuple(notes), idle, span, place(url))


def lines(found: Found, now_s: float) -> Iterator[str]:
    """Yield what is told of *found*, a line each, under a head."""
    words = found.span.words(now_s)
    if not found.idle:
        yield f"every quota has applied to something, {words} ({found.place})"
        return
    yield f"quotas that applied to nothing, {words} ({found.place})"
    for each in found.idle:
        yield f"  {each.quota}: {_missed(each.calls)}"
    yield (
        "  What such a quota is for did not come, or is named otherwise: `tokenweir usage "
        "--by tenant,model,route` shows what came."
    )


def document(found: Found) -> dict[str, object]:
    """Return the same as JSON has it."""
    return {
        "ledger": found.place,
        "from": found.span.begin,
        "until": found.span.end,
        "keys_version": found.keys_version,
        "unmatched_quotas": [
            {"quota": each.quota, "calls": each.calls} for each in found.idle
        ],
    }


def _missed(calls: int) -> str:
    if not calls:
        return "nobody who has it made a call"
    return "not to the one call" if calls == 1 else f"to none of {calls:,} calls"


def _with_issued(
    policy: Policy, url: str, known: Sequence[Ed25519PublicKey]
) -> tuple[Policy, int, list[str]]:
    """Return *policy* with the keys issued at *url*, their version, and notes."""
    from tokenweir.config.issued_keys import (  # noqa: PLC0415 -- slow
        merged,
        parse_issued_keys,
    )
    from tokenweir.governance.key_desk import newest_at  # noqa: PLC0415 -- slow

    if policy.single_tenant is not None:
        return policy, 0, []
    envelope: Envelope | None = None
    try:
        envelope = asyncio.run(newest_at(url, known))
    except LedgerUnavailableError as error:
        if not is_forbidden(error):
            raise
        text = "issued keys: not read, as this user of the ledger may not"
        return policy, 0, [text]
    if envelope is None:
        return policy, 0, []
    whole, ignored = merged(policy, parse_issued_keys(envelope.content))
    notes = list(ignored)
    if not known:
        notes.append("issued keys: not verified, --governance-key was not given")
    return whole, envelope.version, notes


def is_forbidden(error: LedgerUnavailableError) -> bool:
    """Tell if the ledger's server answered, and does not allow it."""
    cause = error.__cause__
    return "NoPermission" in type(cause).__name__ or "NOPERM" in str(cause)


async def _idle(policy: Policy, url: str, span: Span) -> tuple[Idle, ...]:
    from tokenweir.ledger.matched import idle_quotas  # noqa: PLC0415 -- slow
    from tokenweir.ledger.redis import RedisStore  # noqa: PLC0415 -- slow
    from tokenweir.telemetry.fanout import Fanout  # noqa: PLC0415 -- slow

    store = RedisStore(url, Fanout(()))
    try:
        return await idle_quotas(store, policy, span.first, span.last)
    finally:
        await store.close()
