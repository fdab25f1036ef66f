"""
The processor, in which one place can be broken while it runs.

    python -m tests.cases.faulty_processor serve …

Run instead of `tokenweir`. The file that the environment's `TOKENWEIR_FAULT_FILE`
names says which place, and how: ``raise ledger.reserve``. Empty: none. Exceptions
hold in their texts whatever the place was called with.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cases import short_holds
from tokenweir.cli.main import main
from tokenweir.core import accounting, admission, outgoing, request_side
from tokenweir.core.dialects.anthropic_messages import AnthropicMessages
from tokenweir.core.dialects.openai_chat import OpenAIChat
from tokenweir.core.exchange import Exchange
from tokenweir.core.response import ResponseReader
from tokenweir.core.response_side import ResponseSide
from tokenweir.core.ticket import Ticket
from tokenweir.driver.handoff import Handoff
from tokenweir.driver.request import RequestDriver
from tokenweir.driver.response import ResponseDriver
from tokenweir.extproc import session
from tokenweir.ledger.spool import SpooledLedger
from tokenweir.processor import processor
from tokenweir.telemetry.logs import JsonLog
from tokenweir.telemetry.metrics import Metrics
from tokenweir.tokenizers.counter import TokenCounter

FILE_VARIABLE = "TOKENWEIR_FAULT_FILE"
# Is told such as ``raise feed``; ``""`` mends it.
Breaks = Callable[[str], object]
# Longer than Envoy waits for any answer.
STUCK_SECONDS = 6.0
# Of the line that says that nothing moves from now on.
STUCK_EVENT = "stuck"

# What a request passes, from its head to the answer.
REQUEST_PLACES: dict[str, tuple[Any, str]] = {
    "arrival": (processor.Processor, "_arrival"),
    "request.decode": (session, "decode"),
    "request.session": (session.AdmissionSession, "receive"),
    "request.driver": (RequestDriver, "advance"),
    "request.exchange": (Exchange, "handle"),
    "identify": (request_side, "identify"),
    "parse.openai": (OpenAIChat, "parse_request"),
    "parse.anthropic": (AnthropicMessages, "parse_request"),
    "plan": (admission, "plan_metered"),
    "count_prompt": (TokenCounter, "count_prompt"),
    "ceiling": (admission, "output_ceiling"),
    "ledger.reserve": (SpooledLedger, "reserve"),
    "outgoing": (outgoing, "outgoing_headers"),
    "request.encode": (session, "encode"),
}
# What an answer passes, from the ticket to its end.
RESPONSE_PLACES: dict[str, tuple[Any, str]] = {
    "response.session": (session.ResponseSession, "receive"),
    "ticket": (Ticket, "from_text"),
    "claim": (Handoff, "claim"),
    "response.driver": (ResponseDriver, "advance"),
    "response.head": (ResponseSide, "_visible_headers"),
    "refused": (accounting, "refused_before_work"),
    "feed": (ResponseReader, "feed"),
    "end": (ResponseReader, "end"),
    "reported": (accounting, "reported_usage"),
    "count_texts": (TokenCounter, "count_texts"),
    "ledger.settle": (SpooledLedger, "settle"),
    "ledger.extend": (SpooledLedger, "extend"),
    "response.closed": (session.ResponseSession, "closed"),
}
# What both are told to.
SINKS: dict[str, tuple[Any, str]] = {
    "log": (JsonLog, "__call__"),
    "metrics": (Metrics, "__call__"),
}
PLACES = REQUEST_PLACES | RESPONSE_PLACES | SINKS


class InjectedError(Exception):
    """Something that nobody has expected."""


def fault_at(place: str) -> str:
    """Return how *place* is broken now, or ``""``."""
    how, _, where = Path(os.environ[FILE_VARIABLE]).read_text().partition(" ")
    return how if where == place else ""


def broken(place: str, works: Callable[..., Any]) -> Callable[..., Any]:
    """Return *works*, which can be broken as *place*."""

    async def wait(*args: Any, **kwargs: Any) -> Any:
        how = fault_at(place)
        if how == "hang":
            await asyncio.sleep(STUCK_SECONDS)
        _suffer(how, args, kwargs)
        return await works(*args, **kwargs)

    def call(*args: Any, **kwargs: Any) -> Any:
        _suffer(fault_at(place), args, kwargs)
        return works(*args, **kwargs)

    return wait if inspect.iscoroutinefunction(works) else call


def _suffer(how: str, args: object, kwargs: object) -> None:
    match how:
        case "raise":
            raise InjectedError(f"{args} {kwargs}")
        case "cancel":  # which no `except Exception` catches
            raise asyncio.CancelledError(f"{args} {kwargs}")
        case "block":
            print(json.dumps({"event": STUCK_EVENT}), flush=True)  # noqa: T201
            time.sleep(STUCK_SECONDS)
        case _:
            pass  # it hangs elsewhere, or is whole


def install() -> None:
    """Make all places breakable."""
    for place, (owner, name) in PLACES.items():
        raw = inspect.getattr_static(owner, name)
        if isinstance(raw, classmethod):
            setattr(owner, name, classmethod(broken(place, raw.__func__)))
        else:
            setattr(owner, name, broken(place, raw))


if __name__ == "__main__":
    install()
    short_holds.install()
    sys.exit(main())
