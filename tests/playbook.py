"""
Says what an exchange must ask for in answer to what it is told.

    play(
        Exchange(arrival),
        (head(), [AwaitBody()]),
        (RequestBody(b"..."), [CountPrompt(...)]),
    )
"""

from tests.examples import NOW_MS
from tokenweir.core.commands import Command
from tokenweir.core.events import Event
from tokenweir.core.exchange import Exchange


def play(
    exchange: Exchange, *steps: tuple[Event, list[Command]], now_ms: int = NOW_MS
) -> None:
    """Feed each step's event at *now_ms* and compare the commands with the step's."""
    for number, (event, expected) in enumerate(steps, 1):
        before = exchange.state
        actual = exchange.handle(event, now_ms)
        assert actual == expected, f"step {number}: {event} in {before}"
