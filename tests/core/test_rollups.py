"""An hour's sums are what records say, or are told to differ, figure by figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from tests.ledger.builders import hold, used
from tokenweir.core.hold import Amounts
from tokenweir.core.record import (
    HOUR_MS,
    RETRACTED,
    SEPARATOR,
    difference,
    group_of,
    increments_in,
    labels_of,
    lost_record,
    record_of,
)
from tokenweir.core.rollups import (
    RECORDED,
    Recorded,
    RollupFinding,
    RollupVerdict,
    compare_hour,
    recorded,
)
from tokenweir.core.usage_record import UsageRecordError

HOUR = 472_222
AT = {"reserved_at_ms": str(HOUR * HOUR_MS + 5), "correction": "0"}
GROUP = tuple(group_of(labels_of(hold(1))).split(SEPARATOR))
Sums = dict[str, int]


def record(number: int, **changes: str) -> dict[str, str]:
    """A record of an exchange that was settled."""
    settled = replace(used(40, 20), cost_nanousd=77)
    return {**record_of(hold(number), settled), **AT, **changes}


def lost(number: int, **changes: str) -> dict[str, str]:
    """One of an exchange that nobody settled."""
    labels = labels_of(hold(number))
    return {**lost_record(labels, Amounts(1, 40, 5, 9), 1_000), **AT, **changes}


def told(*records: Mapping[str, str]) -> list[Recorded]:
    """Records, in the order in which they were written."""
    return [recorded(each, f"{number}-0") for number, each in enumerate(records)]


def sums_of(*records: Mapping[str, str]) -> tuple[Sums, Sums]:
    """What the ledger keeps of such: of groups, and of their users."""
    sums: Sums = {}
    users: Sums = {}
    for each in records:
        prefix = group_of(each) + SEPARATOR
        for name, figure in increments_in(each).items():
            sums[prefix + name] = sums.get(prefix + name, 0) + figure
            if each["user"]:
                own = f"{prefix}{each['user']}{SEPARATOR}{name}"
                users[own] = users.get(own, 0) + figure
    return sums, users


def found(
    sums: Sums, users: Sums | None, evidence: Iterable[Recorded]
) -> list[RollupFinding]:
    """What is found of them."""
    return list(compare_hour(HOUR, sums, users, evidence))


def verdicts(
    findings: Iterable[RollupFinding],
) -> list[tuple[str | None, RollupVerdict]]:
    """Whose sums are how."""
    return [(each.user, each.verdict) for each in findings]


def test_sums_that_records_say() -> None:
    """They agree, those of each user too; nothing is found of nothing."""
    records = [record(1, user=""), record(2, user="u1"), record(3, user="u1")]
    findings = found(*sums_of(*records), told(*records))

    assert verdicts(findings) == [
        (None, RollupVerdict.AGREES),
        ("u1", RollupVerdict.AGREES),
    ]
    assert {each.group for each in findings} == {GROUP}
    assert findings[0].says == findings[0].should
    assert findings[0].should["exchanges"] == 3
    assert findings[1].should["cost_nanousd"] == 2 * 77
    assert found({}, {}, []) == []


def test_every_figure_of_a_record_is_compared() -> None:
    """No name that records add to sums is taken for one of somebody else."""
    for each in (
        record(1, flags="unpriced,cap_reached", source="counted", capped_from="unset"),
        record(1, user="u1", downgraded_from="gpt-4o", saved_nanousd="5"),
        lost(1),
    ):
        sums, users = sums_of(each)
        for name in sums:
            (whole, *_) = found({**sums, name: sums[name] - 1}, users, told(each))
            assert whole.verdict is RollupVerdict.DIFFERS
            metric = name.rpartition(SEPARATOR)[2]
            assert difference(whole.should, whole.says) == {metric: 1}
    assert "exchanges" in RECORDED


def test_sums_that_lost_something() -> None:
    """What an export knows besides is what they should say."""
    here, elsewhere = record(1, user="u1"), record(2, user="u2")
    whole, first, second = found(*sums_of(here), told(here, elsewhere))

    assert whole.verdict is RollupVerdict.DIFFERS
    assert difference(whole.should, whole.says) == increments_in(elsewhere)
    assert verdicts([first, second]) == [
        ("u1", RollupVerdict.AGREES),
        ("u2", RollupVerdict.DIFFERS),
    ]
    assert second.says == {}


def test_sums_that_know_more_than_records() -> None:
    """Records expire first: then nothing is said against sums, of groups or of users."""
    records = [record(1, user="u1"), record(2, user="u2")]
    sums, users = sums_of(*records)

    assert verdicts(found(sums, users, told(records[0]))) == [
        (None, RollupVerdict.UNPROVEN)
    ]
    assert verdicts(found(sums, users, [])) == [(None, RollupVerdict.UNPROVEN)]
    # As many, and yet others: one of them is of somebody of whom there is no record.
    other = [records[0], record(3, user="u3")]
    assert verdicts(found(sums, users, told(*other))) == [
        (None, RollupVerdict.UNPROVEN)
    ]


def test_an_estimate_and_its_correction_are_one() -> None:
    """However many records there are of an exchange, the best one is summed, once."""
    settled = record(1, correction="1")
    retracted = lost(1, correction="1", flags=RETRACTED)

    assert {
        each.verdict for each in found(*sums_of(settled), told(lost(1), settled))
    } == {RollupVerdict.AGREES}
    # It was settled when nobody remembered that it was lost: sums tell it twice.
    twice = sums_of(lost(1), record(1))
    (whole, *_) = found(*twice, told(lost(1), record(1)))
    assert whole.verdict is RollupVerdict.DIFFERS
    assert (whole.says["exchanges"], whole.should["exchanges"]) == (2, 1)
    # It was given back: it is nobody's.
    assert found(*sums_of(), told(lost(1), retracted)) == []


def test_a_record_that_comes_twice() -> None:
    """Copies in an export add nothing."""
    made = record(1)
    copies = [recorded(made, "1-0"), recorded(made, "1-0", "export")]

    assert {each.verdict for each in found(*sums_of(made), copies)} == {
        RollupVerdict.AGREES
    }


def test_users_that_are_no_longer_kept() -> None:
    """After 35 days there are no sums by user: only those of groups are compared."""
    made = record(1, user="u1")
    sums, _ = sums_of(made)

    assert verdicts(found(sums, None, told(made))) == [(None, RollupVerdict.AGREES)]


def test_what_no_record_tells_is_nobodys_business() -> None:
    """Refusals, matched quotas and figures of other versions are not compared."""
    made = record(1, user="")
    sums, users = sums_of(made)
    prefix = SEPARATOR.join(GROUP) + SEPARATOR
    of_others = {
        f"{prefix}{name}": 3
        for name in ("refused_acme.tpm", "refused:unknown_key", "matched_exchanges")
    }
    refused = {SEPARATOR.join(("acme", "k", "m", "p", "r", "refused_x")): 1}

    findings = found({**sums, **of_others, **refused}, users, told(made))
    assert verdicts(findings) == [(None, RollupVerdict.AGREES)]
    assert found(refused, {}, []) == []


def test_sums_of_former_versions() -> None:
    """They do not tell the provider: what they are part of can't be judged."""
    made, other = record(1, user=""), record(2, user="", model="other")
    sums, users = sums_of(made, other)
    former = {SEPARATOR.join((*GROUP[:3], "exchanges")): 4}

    assert verdicts(found({**sums, **former}, users, told(made, other))) == [
        (None, RollupVerdict.UNPROVEN),
        (None, RollupVerdict.AGREES),
    ]


def test_a_record_of_a_former_version() -> None:
    """What it lacks is nothing."""
    made = record(1)
    older = {
        name: value
        for name, value in made.items()
        if name not in ("saved_nanousd", "flags", "capped_from", "first_token_ms")
    }

    assert recorded(older, "1-0").figures == increments_in(made)
    assert recorded({**made, "first_token_ms": None}, "1-0", "export").figures


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"source": None}, "has no source"),
        ({"image_input_tokens": "many"}, "is no number"),
        ({"saved_nanousd": "much"}, "is no number"),
    ],
)
def test_what_is_no_record(changes: dict[str, str | None], says: str) -> None:
    """It is told what is wrong with it."""
    with pytest.raises(UsageRecordError, match=says):
        recorded({**record(1), **changes}, "1-0")
