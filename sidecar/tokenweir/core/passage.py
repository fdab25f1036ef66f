"""
What Envoy tells of an exchange whose answer no processor has read.

It is told again and again while the answer flows, and once at its end. Each time it is
everything that is known so far, so that whoever hears it last can settle it alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenweir.core.events import ResponseHead
from tokenweir.core.excerpt import Excerpt
from tokenweir.core.ticket import Ticket


@dataclass(frozen=True, slots=True)
class Passage:
    """
    Attributes:
        ticket: From the request side.
        at_ms: When this was so, since 1970, by Envoy's clock.
        over: The exchange has ended, however; else it goes on.
        sent: The request went to a provider, or was about to.
        head: Of the answer; None: there is none yet.
        ended: All of the answer went to the app.
        body_bytes: Of the answer, as far as it has passed.
        excerpt: What was kept of the answer's body; None: nothing.
    """

    ticket: Ticket
    at_ms: int
    over: bool
    sent: bool = True
    head: ResponseHead | None = None
    ended: bool = False
    body_bytes: int = 0
    excerpt: Excerpt | None = None
