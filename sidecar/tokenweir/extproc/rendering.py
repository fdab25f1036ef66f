"""
What the Envoy that calls was rendered from, compared with the policy in use.

Envoy's configuration does not follow a policy by itself. It says with each exchange
which parts of a policy it was made from; so it is known here what is not in force yet,
and a request for a provider that Envoy knows otherwise is refused before it is held.

Told once for each policy and each configuration: during a restart two Envoys call by
turns.
"""

from __future__ import annotations

from collections.abc import Callable

from tokenweir.core.policy import Policy
from tokenweir.telemetry.hooks import Events


class Rendering:
    """
    Hears what Envoy says, and tells *events* what of the *policy* it does not know.

    *follows*: Envoy was told of a policy before it is in force, so what it said before
    that does not count any more.

    Attributes:
        stale: Paths in the policy that Envoy has to be rendered anew for; None: it has
            not said anything yet.
    """

    def __init__(
        self, policy: Callable[[], Policy], events: Events, *, follows: bool = False
    ) -> None:
        self._follows = follows
        self.stale: tuple[str, ...] | None = None
        self._policy = policy
        self._events = events
        self._text = ""
        self._rendered: frozenset[str] | None = None
        self._told: set[str] = set()

    def hear(self, text: str) -> frozenset[str] | None:
        """Take what Envoy says, ``""`` if nothing; return the digests in it."""
        if text != self._text:
            self._text = text
            self._rendered = frozenset(text.split(",")) if text else None
            self._compare()
        return self._rendered

    def policy_changed(self) -> None:
        """Compare again: there is another policy."""
        self._told.clear()
        if self._follows:
            self._text, self._rendered = "", None
        self._compare()

    def _compare(self) -> None:
        if self._rendered is None:
            return
        self.stale = tuple(
            path
            for path, digest in self._policy().rendering.items()
            if digest not in self._rendered
        )
        if self._text not in self._told:
            self._told.add(self._text)
            self._events.envoy_rendering(self.stale)
