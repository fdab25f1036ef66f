"""What a cheaper model and a lower cap have saved."""

from __future__ import annotations

from dataclasses import replace

from tests.examples import NOW_MS, ticket
from tests.prices import CEILING, Book, price, pricing
from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.pricing import NO_PRICING, Answered, Pricing
from tokenweir.core.savings import reached_cap, saved_by_cap, saved_by_downgrade
from tokenweir.core.ticket import Ticket
from tokenweir.core.usage import TokenUsage

USAGE = TokenUsage(input_tokens=11, output_tokens=300)
PRICES = pricing(large=price(4, 20, flex=True), small=price(1, 2))
DOWNGRADED = replace(ticket(), instead_of=("openai", "large"))
ANSWERED = Answered("openai", "small", None, None, NOW_MS, 0)


def capped(choices: int = 1, expected: int = 2_000) -> Ticket:
    """Return the ticket of a request whose cap was lowered to 300."""
    plain = ticket(output_cap=300 * choices)
    subject = replace(plain.hold.subject, capped_from="2000", output_cap="300")
    return replace(
        plain,
        hold=replace(plain.hold, subject=subject),
        choices=choices,
        expected_tokens=expected,
    )


def saved(
    of: Ticket, at_cap: int, prices: Pricing = PRICES, usage: TokenUsage = USAGE
) -> int:
    """Return what the cap of a request has saved."""
    return saved_by_cap(of, ResponseFacts(at_cap=at_cap), prices, usage, ANSWERED)


def test_a_downgrade() -> None:
    """What the model that was asked for would have cost, at the tier that served."""
    assert saved_by_downgrade(DOWNGRADED, PRICES, USAGE, None) == 11 * 4 + 300 * 20
    assert saved_by_downgrade(DOWNGRADED, PRICES, USAGE, "flex") == 11 * 2 + 300 * 10


def test_a_downgrade_from_what_nobody_knows() -> None:
    """No price, not for this tier, or only a ceiling: nothing that could be told."""
    ceiling = Pricing(Book(), CEILING)

    assert saved_by_downgrade(ticket(), PRICES, USAGE, None) == 0
    assert saved_by_downgrade(DOWNGRADED, NO_PRICING, USAGE, None) == 0
    assert saved_by_downgrade(DOWNGRADED, ceiling, USAGE, None) == 0
    assert saved_by_downgrade(DOWNGRADED, PRICES, USAGE, "priority") == 0


def test_a_cap_that_was_reached() -> None:
    """What was left of the app's own cap, for each choice that ended there."""
    assert saved(capped(), 1) == 1_700 * 2
    assert saved(capped(choices=3), 2) == 2 * 1_700 * 2
    assert saved(capped(), 7) == 1_700 * 2  # said more than once
    assert saved(capped(expected=100), 1) == 0  # set above what was expected


def test_a_cap_that_was_not_reached() -> None:
    """An answer that ended by itself would not have been longer."""
    assert saved(capped(), 0) == 0
    assert not reached_cap(capped(), ResponseFacts())
    assert reached_cap(capped(), ResponseFacts(at_cap=1))


def test_an_app_that_reached_its_own_cap() -> None:
    """It owes the policy nothing."""
    own = ticket(output_cap=300)

    assert not reached_cap(own, ResponseFacts(at_cap=1))
    assert saved(own, 1) == 0


def test_a_cap_without_price_or_reader() -> None:
    """Nothing that could be told."""
    assert saved(capped(), 1, pricing()) == 0
    assert saved(replace(capped(), output_cap=None), 1) == 0
