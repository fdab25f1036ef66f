"""
Who reads an answer, and how.

    native    Envoy itself: the processor hears of it from the access log
    observe   the processor, from a copy that nobody waits for
    inspect   the processor, in line

What is charged is the same on all of them where the provider reports what was used. See
docs/response-paths.md for what they cost, and for how well each knows a cut stream.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class ResponsePath(enum.StrEnum):
    """See above."""

    NATIVE = "native"
    OBSERVE = "observe"
    INSPECT = "inspect"


# What `auto` means. It becomes native once every test of the product passes in it.
AUTO = ResponsePath.INSPECT


@dataclass(frozen=True, slots=True)
class Responses:
    """
    Which path answers take.

    Attributes:
        path: Of routes that are not named.
        routes: By route.
    """

    path: ResponsePath = AUTO
    routes: Mapping[str, ResponsePath] = field(default_factory=dict)

    def path_of(self, route: str) -> ResponsePath:
        """Return the path of answers on *route*."""
        return self.routes.get(route, self.path)


DEFAULT_RESPONSES = Responses()


def route_name(provider: str, timeouts: str, path: ResponsePath) -> str:
    """Return what Envoy calls the route to *provider*, in its log and elsewhere."""
    name = f"{provider}/{timeouts}"
    return name if path is ResponsePath.INSPECT else f"{name}/{path}"
