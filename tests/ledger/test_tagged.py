"""A hold's way through its tags, in dialogue with a store that is told what to say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import pytest

from tests.ledger.builders import SUBJECT, WORST_CASE, tokens, used
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Denied, Granted, Hold, LimitState, Part
from tokenweir.core.holding import Account, Share
from tokenweir.core.policy import Axis
from tokenweir.core.rejection import QuotaFailure
from tokenweir.ledger.tagged import TaggedLedger

LIMITS = tuple(tokens(100, quota=f"q{number}") for number in range(3))
PARTS = tuple(Part(f"tw:{n:03d}", (limit,)) for n, limit in enumerate(LIMITS))
HOLD = Hold("1-2-3", PARTS, WORST_CASE, SUBJECT)
STATES = tuple(LimitState(limit, 0, 1) for limit in LIMITS)


def failure(quota: str, *, shadow: bool = False) -> QuotaFailure:
    """A quota that something does not fit into."""
    return QuotaFailure(quota, Axis.TOKENS, "tenant=acme", 9, 0, 0, 9, 1, shadow)


@dataclass
class ScriptedStore:
    """Answers as it is told, and remembers what it was asked."""

    answers: list[Granted | Denied | Exception] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    asked: list[tuple[str, ...]] = field(default_factory=list)
    epoch: str = "7"
    fails_to_cancel: bool = False

    async def reserve(self, tag: str, share: Share) -> Granted | Denied:
        """Give the next answer."""
        self.note("reserve", tag, share)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def extend(self, tag: str, share: Share, output_tokens: int) -> None:
        """Take it, unless the tag is broken."""
        self.note("extend", tag, share, str(output_tokens))

    async def settle(self, tag: str, share: Share, account: Account) -> None:
        """Take it, unless the tag is broken."""
        self.note("settle", tag, share, "recorded" if account.record else "")

    async def cancel(
        self,
        tag: str,
        hold_id: str,
        *,
        unclaimed_only: bool,
        share: Share | None = None,
    ) -> bool:
        """Take it, unless the tag is broken; under the first tag it is nobody's."""
        lease = () if share is None else (share.lease,)
        self.asked.append(("cancel", tag, hold_id, str(unclaimed_only), *lease))
        self.check(tag)
        if self.fails_to_cancel:
            raise LedgerUnavailableError(f"cancel {tag}")
        return tag == PARTS[0].tag

    async def ping(self) -> None:
        """Answer."""
        self.asked.append(("ping",))

    async def close(self) -> None:
        """Close."""
        self.asked.append(("close",))

    def note(self, verb: str, tag: str, share: Share, *more: str) -> None:
        """Remember a call."""
        keeps = "labelled" if share.labels else ""
        self.asked.append((verb, tag, keeps, *more))
        self.check(tag)

    def check(self, tag: str) -> None:
        """Fail if the tag is broken."""
        if tag in self.broken:
            raise LedgerUnavailableError(tag)


async def test_a_grant_is_granted_under_every_tag() -> None:
    """
    Tag by tag, in order; only the first keeps the record.
    """
    store = ScriptedStore(
        [
            Granted("7", STATES[:1]),
            Granted("8", STATES[1:2], (failure("s", shadow=True),)),
            Granted("7", STATES[2:]),
        ],
        epoch="8",
    )
    answer = await TaggedLedger(store).reserve(HOLD)

    assert answer == Granted("8", STATES, (failure("s", shadow=True),))
    assert store.asked == [
        ("reserve", "tw:000", "labelled"),
        ("reserve", "tw:001", ""),
        ("reserve", "tw:002", ""),
    ]


async def test_a_denial_cancels_the_earlier_tags() -> None:
    """
    The later ones are not asked; what was in shadow mode before is reported too.
    """
    store = ScriptedStore(
        [
            Granted("7", STATES[:1], (failure("s", shadow=True),)),
            Denied("7", (failure("q1"),), (failure("t", shadow=True),)),
        ]
    )
    answer = await TaggedLedger(store).reserve(HOLD)

    assert answer == Denied(
        "7",
        (failure("q1"),),
        (failure("s", shadow=True), failure("t", shadow=True)),
    )
    assert store.asked[2:] == [("cancel", "tw:000", "1-2-3", "False")]


async def test_a_denial_that_can_not_be_undone_is_a_failure() -> None:
    """
    Then the caller has to see to it, as after any failure.
    """
    store = ScriptedStore([Granted("7"), Denied("7", (failure("q1"),))])
    store.fails_to_cancel = True
    with pytest.raises(LedgerUnavailableError, match="cancel tw:000"):
        await TaggedLedger(store).reserve(HOLD)


async def test_a_failure_cancels_the_earlier_tags() -> None:
    """
    What failed may have been applied: that is the caller's to cancel.
    """
    error = LedgerUnavailableError("gone")
    store = ScriptedStore([Granted("7"), Granted("7"), error])
    with pytest.raises(LedgerUnavailableError, match="gone"):
        await TaggedLedger(store).reserve(HOLD)

    assert store.asked[3:] == [
        ("cancel", "tw:000", "1-2-3", "False"),
        ("cancel", "tw:001", "1-2-3", "False"),
    ]


@pytest.mark.parametrize("verb", ["extend", "settle", "cancel"])
async def test_a_broken_tag_keeps_no_other_from_being_told(verb: str) -> None:
    """
    Every tag is told, and then the caller hears that one was not.
    """
    store = ScriptedStore(broken={"tw:001"})
    ledger = TaggedLedger(store)
    calls: dict[str, Callable[[], Awaitable[bool | None]]] = {
        "extend": lambda: ledger.extend(HOLD, 5),
        "settle": lambda: ledger.settle(HOLD, used(40, 20)),
        "cancel": lambda: ledger.cancel(HOLD, unclaimed_only=True),
    }
    with pytest.raises(LedgerUnavailableError, match="tw:001"):
        await calls[verb]()

    assert [asked[:2] for asked in store.asked] == [(verb, part.tag) for part in PARTS]


async def test_the_first_tag_says_whose_a_hold_is() -> None:
    """
    Every tag gives the hold back, and the answer is the one that has the record.
    """
    store = ScriptedStore()
    ledger = TaggedLedger(store)

    assert await ledger.cancel(HOLD, unclaimed_only=True)
    assert [asked[:2] for asked in store.asked] == [
        ("cancel", part.tag) for part in PARTS
    ]


async def test_what_is_a_part_of_a_lease_says_so() -> None:
    """
    Whoever gives it back tells what it is to be taken out of.
    """
    store = ScriptedStore()
    hold = replace(HOLD, parts=PARTS[:1], lease="a lease")
    await TaggedLedger(store).cancel(hold)

    assert store.asked == [("cancel", PARTS[0].tag, HOLD.id, "False", "a lease")]


async def test_only_the_first_tag_is_told_the_record() -> None:
    """
    An exchange is recorded once, and its labels are kept once.
    """
    store = ScriptedStore()
    ledger = TaggedLedger(store)
    await ledger.settle(HOLD, used(40, 20))
    await ledger.extend(HOLD, 5)

    assert store.asked == [
        ("settle", "tw:000", "labelled", "recorded"),
        ("settle", "tw:001", "", ""),
        ("settle", "tw:002", "", ""),
        ("extend", "tw:000", "labelled", "5"),
        ("extend", "tw:001", "", "5"),
        ("extend", "tw:002", "", "5"),
    ]


async def test_the_rest_is_the_stores() -> None:
    """
    Epoch, ping and close are passed on.
    """
    store = ScriptedStore(epoch="12")
    ledger = TaggedLedger(store)
    await ledger.ping()
    await ledger.close()

    assert await ledger.epoch() == "12"
    assert store.asked == [("ping",), ("close",)]
