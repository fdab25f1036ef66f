"""What exchanges take out of leases, and what is left."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.carving import carved, shrunk, without
from tokenweir.core.hold import Amounts, Limit
from tokenweir.core.holding import Holding, Share, State, Taken, key_of
from tokenweir.core.policy import Axis
from tokenweir.core.tag import Tag

NOW_MS = 1_700_000_000_000
TOKENS = Limit("tpm", Axis.TOKENS, "tenant=acme", 1, 10_000)
SLOTS = Limit("slots", Axis.CONCURRENCY, "tenant=acme", 0, 50)
EACH = Amounts(1, 40, 60)
LEASE = Holding(
    State.HELD,
    amounts=Amounts(5, 200, 300, 900),
    taken=(
        Taken("tokens", Axis.TOKENS, 1, 10_000, 500),
        Taken("slots", Axis.CONCURRENCY, 0, 50, 5),
    ),
    progress=300,
    slots=5,
)


def share(amounts: Amounts = EACH, **more: object) -> Share:
    """An exchange that was admitted out of the lease."""
    labels = dict.fromkeys(("tenant", "user"), "x")
    named: dict[str, object] = {"lease": "lease", **more}
    return Share("0-1-a", (TOKENS, SLOTS), amounts, "m", labels, 7, **named)  # type: ignore[arg-type]


def test_an_exchange_takes_its_part_with_it() -> None:
    """As it was reserved, from when it began, and with its own labels."""
    hold = carved(LEASE, share(), 77)

    assert hold.state is State.HELD
    assert (hold.started_ms, hold.amounts) == (77, Amounts(1, 40, 60))
    assert [taken.taken for taken in hold.taken] == [100, 1]
    assert (hold.model, hold.output_nanousd, hold.slots) == ("m", 7, 1)
    assert hold.recorded is None


def test_no_more_is_taken_than_is_there() -> None:
    """Of an exchange that has grown the rest is debited when it moves."""
    hold = carved(LEASE, share(Amounts(1, 40, 600)), 77)

    assert hold.taken[0].taken == 500
    assert without(LEASE, Amounts(1, 40, 600)).taken[0].taken == 0


def test_what_is_left_of_a_lease() -> None:
    """All but that; who does not account for it is charged all of it."""
    left = without(LEASE, Amounts(1, 40, 60, 100))

    assert left.amounts == Amounts(4, 160, 240, 800)
    assert (left.slots, left.progress) == (4, 240)
    assert left.taken[0].taken == 400
    given_back = shrunk(LEASE, Amounts(3, 100, 100, 0), 9)
    assert (given_back.slots, given_back.progress) == (0, 200)
    assert given_back.taken == LEASE.taken


@given(st.lists(st.sampled_from(["settle", "cancel", "extend", "give_back"])))
def test_levels_are_what_is_held_whatever_is_done(verbs: list[str]) -> None:
    """What is reserved of each limit is what holds have, and in the end nothing."""
    tag, used = Tag(), Amounts(1, 40, 60)
    lease = Share("0-1-lease", (TOKENS, SLOTS), Amounts(4, 160, 240), "m", slots=4)
    tag.reserve(lease, NOW_MS)
    for number, verb in enumerate(verbs[:4]):
        one = Share(f"0-1-{number}", (TOKENS, SLOTS), used, "m", lease=lease.hold_id)
        if verb == "extend":
            tag.extend(one, 0, NOW_MS)
        elif verb == "cancel":
            tag.cancel(one.hold_id, NOW_MS, share=one)
        elif verb == "give_back":
            tag.give_back(lease.hold_id, used, 1, NOW_MS)
        held = [each for each in tag.holdings.values() if each.state is State.HELD]
        bucket, slots = (
            tag.levels.buckets[key_of(TOKENS)],
            tag.levels.slots[key_of(SLOTS)],
        )
        assert bucket.reserved == sum(each.taken[0].taken for each in held)
        assert len(slots.until_ms) == sum(each.slots for each in held)
        assert bucket.remaining == 10_000 - bucket.reserved
    for hold_id in tuple(tag.expiries):
        tag.cancel(hold_id, NOW_MS)

    assert tag.levels.buckets[key_of(TOKENS)].remaining == 10_000
    assert tag.levels.slots[key_of(SLOTS)].until_ms == {}
