"""
Why a request was turned away.

A rejection is an outcome, not a fault, so it is a value and is returned. Each
class carries what the client needs to act on it. `tokenweir.extproc.respond`
is the one place that turns it into HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenweir.core.policy import BUDGETS, Axis, KeyEnd


@dataclass(frozen=True, slots=True)
class QuotaFailure:
    """
    One quota that this request does not fit into now.

    Attributes:
        quota: The quota's id.
        axis: What is limited.
        partition: Whose, such as ``"tenant=acme"``.
        capacity: Tokens, requests or slots.
        used: Settled and not yet earned back.
        reserved: Held by exchanges in flight.
        requested: What this request asked for.
        wait_ms: Who waits that long succeeds if alone; for concurrency an estimate.
        shadow: Reported only.
        rate: What comes back a minute; 0 for concurrency.
        per: Of a budget: how long its window is, such as ``"day"``.
        resets_at_ms: Ditto: when the window turns, since 1970.
        stagger_ms: What is added to the wait where callers are told when to come back,
            so that they do not come all at once; at most a window.
    """

    quota: str
    axis: Axis
    partition: str
    capacity: int
    used: int
    reserved: int
    requested: int
    wait_ms: int
    shadow: bool = False
    rate: int = 0
    per: str = ""
    resets_at_ms: int = 0
    stagger_ms: int = 0

    @property
    def return_ms(self) -> int:
        """The time until the moment that the caller is told."""
        return self.wait_ms + self.stagger_ms


@dataclass(frozen=True, slots=True)
class QuotaExhausted:
    """
    Over one or more quotas; waiting helps.

    Attributes:
        tenant: Who is over.
        failures: Every enforced quota that failed, the longest wait first; not empty.
    """

    tenant: str
    failures: tuple[QuotaFailure, ...]

    @property
    def wait_ms(self) -> int:
        """The longest wait: after it all of them fit, if the caller is alone."""
        return self.failures[0].wait_ms

    @property
    def return_ms(self) -> int:
        """The time until the caller is told to come back: at least the wait."""
        return max(failure.return_ms for failure in self.failures)

    @property
    def is_budget(self) -> bool:
        """A budget is among them: no SDK should wait for it."""
        return any(failure.axis in BUDGETS for failure in self.failures)


@dataclass(frozen=True, slots=True)
class Unsatisfiable:
    """The request asks for more than the quota can ever hold: waiting can't help."""

    quota: str
    axis: Axis
    partition: str
    capacity: int
    requested: int
    rate: int = 0


@dataclass(frozen=True, slots=True)
class Malformed:
    """The body is not a request of this API. *message* quotes no content."""

    message: str
    param: str | None = None


@dataclass(frozen=True, slots=True)
class PathTooLong:
    """The path is longer than what anybody looks at, or its query is."""


@dataclass(frozen=True, slots=True)
class UnknownKey:
    """No key, more than one, or one that the policy does not know."""

    message: str


@dataclass(frozen=True, slots=True)
class EndedKey:
    """A key that was known: it does not work since *since_ms*, because of its *end*."""

    end: KeyEnd
    since_ms: int


@dataclass(frozen=True, slots=True)
class RouteNotAllowed:
    """The key may not be used for requests of the class *route*."""

    route: str


@dataclass(frozen=True, slots=True)
class ModelNotAllowed:
    """The policy does not have the model, or not for this tenant or key."""

    model: str


@dataclass(frozen=True, slots=True)
class ModelUnpriced:
    """
    Nobody knows what the model costs, and a budget of money applies.

    Attributes:
        model: As the app named it.
        what: What has no price: ``"model"``, or a tier or class of tokens.
    """

    model: str
    what: str


@dataclass(frozen=True, slots=True)
class PathNotMetered:
    """A request with a body on a path that nothing here can meter."""

    path: str


@dataclass(frozen=True, slots=True)
class EncodingNotMetered:
    """The request body is encoded in a way that can't be read, so not be counted."""

    encoding: str


@dataclass(frozen=True, slots=True)
class BodyTooLarge:
    """The request body is above the limit."""

    limit_bytes: int


@dataclass(frozen=True, slots=True)
class LedgerUnavailable:
    """The ledger gave no answer in time and a quota says `closed`."""

    wait_ms: int


@dataclass(frozen=True, slots=True)
class Draining:
    """This processor is about to leave."""

    wait_ms: int


@dataclass(frozen=True, slots=True)
class EnvoyOutdated:
    """Envoy was rendered from another policy, and does not know the provider so."""

    wait_ms: int


@dataclass(frozen=True, slots=True)
class InternalFault:
    """Something of ours broke. What, is in the log, not in the answer."""

    wait_ms: int


Rejection = (
    QuotaExhausted
    | Unsatisfiable
    | Malformed
    | PathTooLong
    | UnknownKey
    | EndedKey
    | RouteNotAllowed
    | ModelNotAllowed
    | ModelUnpriced
    | PathNotMetered
    | EncodingNotMetered
    | BodyTooLarge
    | LedgerUnavailable
    | Draining
    | EnvoyOutdated
    | InternalFault
)
"""Closed union: `match` over it ends in `assert_never`, so mypy finds a missed case."""
