"""
The compiled policy: what decisions are made from.

A snapshot is frozen. A reload swaps the whole of it between two exchanges, and
an exchange keeps the one that it began with. `tokenweir.config` makes it.
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tokenweir.core.cap import Cap
from tokenweir.core.key_ring import KeyRing
from tokenweir.core.name_pattern import matches
from tokenweir.core.pricing import NO_PRICING, Pricing
from tokenweir.core.prompt_part import DEFAULT_AUDIT, Audit
from tokenweir.core.response_path import DEFAULT_RESPONSES, Responses
from tokenweir.core.tokenize_server import TokenizeServer
from tokenweir.core.webhook import Webhook
from tokenweir.core.window import Calendar


class Axis(enum.StrEnum):
    """What a quota limits."""

    REQUESTS = "requests_per_minute"
    TOKENS = "tokens_per_minute"
    INPUT_TOKENS = "input_tokens_per_minute"
    OUTPUT_TOKENS = "output_tokens_per_minute"
    CONCURRENCY = "concurrency"
    BUDGET_USD = "budget_usd"
    BUDGET_TOKENS = "budget_tokens"


BUDGETS = frozenset({Axis.BUDGET_USD, Axis.BUDGET_TOKENS})


class OnLedgerFailure(enum.StrEnum):
    """What follows when the ledger gives no answer in time."""

    CLOSED = "closed"  # refuse with 503
    OPEN = "open"  # admit, flag, settle later
    BOUNDED = "bounded"  # admit within unexpired leases, refuse the rest


class Secret:
    """A value that never shows up in a log, a traceback or a repr."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value, for the one place that sends it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret('***')"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)


# Of `Provider.opaque_paths`: everything.
EVERY_PATH = "*"
# What servers agree on how to read. Envoy has normalised the path by then.
_PLAIN_PATH = re.compile(r"(/(?!\.{1,2}(/|$))[A-Za-z0-9._~:@+,=-]*)+")
# Ten hex digits: a chance in a million that one of a thousand changes goes unseen.
_DIGEST_CHARS = 10


def _digest(*facts: object) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:_DIGEST_CHARS]


@dataclass(frozen=True, slots=True)
class TimeoutClass:
    """
    How long Envoy waits for an answer.

    Attributes:
        name: As models and routes refer to it.
        total_ms: From the request's end to the answer's end; 0: no limit.
        idle_ms: Without a byte in either direction.
    """

    name: str
    total_ms: int = 0
    idle_ms: int = 300_000


@dataclass(frozen=True, slots=True)
class Provider:
    """
    Who runs models.

    Attributes:
        name: As the policy calls it.
        dialect: The wire format it speaks, such as ``"openai"``.
        scheme: ``"http"`` or ``"https"``.
        host: DNS name or address.
        port: TCP port.
        path_prefix: Put before the app's path, ``""`` or ``"/anthropic"``.
        credential: Sent instead of the app's key; None: the app's headers pass.
        ca_file: Bundle that the certificate is checked against; None: the system's.
        opaque_paths: What else may pass, unread: a method and a path, such as
            ``"POST /v1/vector_stores"`` or ``"GET /v1/files/*"``, or `EVERY_PATH`.
        output_cap_field: Where it takes a cap that the app did not set, or None: where
            the dialect has it.
        version_path: What its paths begin with in place of ``"/v1"``, or None.
        ask_for_usage: Whether streams are asked for it where the app did not.
        http2: Over plain ``"http"``: by prior knowledge.
        cert_file: Certificates by which Envoy says who it is, or None.
        key_file: The private key of the first one, or None.
        files_digest: Stands for what these files hold. It is in no other digest: Envoy
            follows them without being told that the provider is another.
    """

    name: str
    dialect: str
    scheme: str
    host: str
    port: int
    path_prefix: str = ""
    credential: Secret | None = None
    ca_file: str | None = None
    opaque_paths: tuple[str, ...] = ()
    output_cap_field: str | None = None
    version_path: str | None = None
    ask_for_usage: bool = True
    http2: bool = False
    cert_file: str | None = None
    key_file: str | None = None
    files_digest: str = ""

    @property
    def digest(self) -> str:
        """Ten hex digits that stand for all that Envoy was told of this provider."""
        where = (self.scheme, self.host, self.port, self.path_prefix, self.ca_file)
        who = (self.cert_file, self.key_file) if self.cert_file else ()
        how = ("h2c",) if self.http2 else ()
        return _digest(self.name, *where, *who, *how)

    def lets_pass(self, method: str, path: str) -> bool:
        """Tell if it takes requests to *path* (no query) that no dialect reads."""
        if EVERY_PATH in self.opaque_paths:
            return True
        plain = _PLAIN_PATH.fullmatch(path) is not None
        return plain and matches(f"{method} {path}", self.opaque_paths)

    @property
    def cluster(self) -> str:
        """
        The name of Envoy's cluster: another one wherever the provider is another.

        What was decided under one policy must not be carried out by an Envoy that was
        rendered from another: the credential would go to a stranger.
        """
        return f"{self.name}-{self.digest}"


@dataclass(frozen=True, slots=True)
class Model:
    """
    What answers.

    Attributes:
        name: As apps call it; may end in ``*`` for a family of names.
        provider: The provider's name.
        upstream_model: The provider's name for it; None: the app's.
        max_output_tokens: The most that it can generate in one choice.
        default_output_tokens: What is reserved when the app sets no cap.
        tokenizer: Name of a family in `tokenweir.core.model_family`, or ``"file:"`` and
            the path of a `tokenizer.json`; None: by model name.
        timeout_class: Name of a timeout class; None: the route's.
        maximum_is_known: The policy says `max_output_tokens`: it is no default of ours.
        message_tokens: Around each message; None: as usual for its family.
        tokenize_server: Who can be asked how many tokens a prompt has, or None.
        calibrated: Estimates are corrected by what reports have taught.
    """

    name: str
    provider: str
    upstream_model: str | None = None
    max_output_tokens: int = 16_384
    default_output_tokens: int = 4_096
    tokenizer: str | None = None
    timeout_class: str | None = None
    maximum_is_known: bool = False
    message_tokens: int | None = None
    tokenize_server: TokenizeServer | None = None
    calibrated: bool = True


class OnExceeded(enum.StrEnum):
    """What follows once a budget is spent."""

    BLOCK = "block"
    DOWNGRADE = "downgrade"  # a cheaper model answers
    THROTTLE = "throttle"  # the tenant's rates per minute go down


@dataclass(frozen=True, slots=True)
class Budget:
    """
    What a quota says that is a budget.

    Attributes:
        calendar: When its windows begin.
        on_exceeded: What follows once it is spent.
        downgrade_to: Names of models, the first choice first.
        throttle_percent: What is left of the rates.
        hard_limit: What even then is not passed, in the budget's unit; None: other
            budgets see to that.
        thresholds: Shares of the capacity that are told, in percent.
    """

    calendar: Calendar
    on_exceeded: OnExceeded = OnExceeded.BLOCK
    downgrade_to: tuple[str, ...] = ()
    throttle_percent: int = 100
    hard_limit: int | None = None
    thresholds: tuple[int, ...] = (50, 80, 95)


@dataclass(frozen=True, slots=True)
class Quota:
    """
    A limit, and whose it is.

    Attributes:
        id: Stable within the policy, such as ``"acme.tokens_per_minute"``.
        axis: What is limited.
        rate: Per minute; for concurrency and budgets 0.
        capacity: The most that can be taken at once (burst, or slots); of a budget,
            in a window: nano-USD or tokens.
        partition: What it is kept apart by, out of `PARTITION_KEYS`, in that order.
        shadow: Evaluated and reported, not enforced.
        models: Only for these names (exact, or ending in ``*``); empty: for all.
        routes: Only for these routes; empty: for all.
        on_ledger_failure: What follows when the ledger gives no answer.
        budget: Set if the axis is a budget.
        staggered: Refused callers are told to come back one after the other.
        leased: See `tokenweir.core.lease`.
    """

    id: str
    axis: Axis
    rate: int
    capacity: int
    partition: tuple[str, ...] = ("tenant",)
    shadow: bool = False
    models: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    on_ledger_failure: OnLedgerFailure = OnLedgerFailure.CLOSED
    budget: Budget | None = None
    staggered: bool = False
    leased: bool = False


# The order in which a partition's parts are written.
PARTITION_KEYS = ("tenant", "key", "user", "route", "model", "provider")


@dataclass(frozen=True, slots=True)
class Tenant:
    """
    Who pays.

    Attributes:
        name: As in the policy.
        quotas: The tenant's own, then those that all tenants have.
        models: Names that it may call (exact, or ending in ``*``); empty: all.
        on_ledger_failure: For exchanges that no quota applies to.
    """

    name: str
    quotas: tuple[Quota, ...] = ()
    models: tuple[str, ...] = ()
    on_ledger_failure: OnLedgerFailure = OnLedgerFailure.CLOSED


class KeyEnd(enum.StrEnum):
    """Why a key does not work any more."""

    EXPIRED = "expired"
    ROTATED = "rotated"  # another secret has taken its place
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """
    What proves who pays. The key itself is never kept, only its SHA-256.

    Attributes:
        id: As in logs and records. A key that was rotated keeps it.
        tenant: Who pays.
        models: Names that it may call (exact, or ending in ``*``); empty: its tenant's.
        routes: That it may use; empty: all.
        quotas: Its own limits, besides its tenant's.
        ends_at_ms: From when on it is refused, since 1970; None: it does not end.
        end: Why it is then.
    """

    id: str
    tenant: str
    models: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    quotas: tuple[Quota, ...] = ()
    ends_at_ms: int | None = None
    end: KeyEnd = KeyEnd.EXPIRED


@dataclass(frozen=True, slots=True)
class Policy:
    """
    One snapshot.

    Attributes:
        digest: Twelve hex digits of the source's SHA-256: tells snapshots apart.
        providers: By name.
        models: By exact name.
        model_families: Those whose name ends in ``*``, the longest name first.
        tenants: By name.
        keys: By the lower-case hex SHA-256 of the key.
        single_tenant: If set, every caller is this tenant, whatever key it sends.
        default_providers: The provider of requests without a model, by dialect.
        timeout_classes: By name; ``"default"`` is always there.
        route_timeouts: Name of a timeout class, by route.
        retries: Attempts after the first, of what cannot have worked already.
        body_limit_bytes: The largest request body.
        pricing: What models cost.
        caps: How long answers may be; the lowest that applies counts.
        audit: What is kept of prompts.
        responses: Who reads answers.
        key_ring: The same keys, to be found in constant time.
        webhook: Who is told what budgets have passed, or None.
    """

    digest: str
    providers: Mapping[str, Provider]
    models: Mapping[str, Model]
    model_families: tuple[Model, ...]
    tenants: Mapping[str, Tenant]
    keys: Mapping[str, ApiKey] = field(repr=False)
    single_tenant: str | None = None
    default_providers: Mapping[str, str] = field(default_factory=dict)
    timeout_classes: Mapping[str, TimeoutClass] = field(
        default_factory=lambda: {"default": TimeoutClass("default")}
    )
    route_timeouts: Mapping[str, str] = field(default_factory=dict)
    retries: int = 2
    body_limit_bytes: int = 8 * 1024 * 1024
    pricing: Pricing = field(default=NO_PRICING, repr=False)
    caps: tuple[Cap, ...] = ()
    audit: Audit = DEFAULT_AUDIT
    responses: Responses = DEFAULT_RESPONSES
    key_ring: KeyRing[ApiKey] = field(init=False, repr=False, compare=False)
    webhook: Webhook | None = None

    def __post_init__(self) -> None:
        """Make the keys ready to be found."""
        object.__setattr__(self, "key_ring", KeyRing(self.keys))

    @property
    def rendering(self) -> Mapping[str, str]:
        """All that Envoy's configuration is made from: digests, by path in the file."""
        timeouts = self.timeout_classes.values()
        return {
            **{f"providers.{p.name}": p.digest for p in self.providers.values()},
            **{
                f"timeouts.{t.name}": _digest("timeouts", t.name, t.total_ms, t.idle_ms)
                for t in timeouts
            },
            "retries": _digest("retries", self.retries),
            "body_limit": _digest("body_limit", self.body_limit_bytes),
        }

    def model(self, name: str) -> Model | None:
        """Return what *name* means: the exact entry, else the longest family."""
        found = self.models.get(name)
        if found is not None:
            return found
        for family in self.model_families:
            if name.startswith(family.name.removesuffix("*")):
                return family
        return None
