"""
The policy file, entry by entry.

Every field has a description: the JSON Schema (`docs/policy.schema.json`) and the
reference (`docs/policy.md`) show it, and tests compare them. What concerns more
than one entry, such as a name that refers to another, is checked by `compile`.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, JsonValue, model_validator

from tokenweir.config.audit_entry import AuditEntry
from tokenweir.config.budget_entry import BudgetFields
from tokenweir.config.cap_entry import CapEntry
from tokenweir.config.entry import Entry
from tokenweir.config.notifications_entry import NotificationsEntry
from tokenweir.config.prices_entry import PricesEntry
from tokenweir.config.responses_entry import ResponsesEntry
from tokenweir.config.scalar import (
    MAX_CONCURRENCY,
    MAX_RETRIES,
    AbsolutePath,
    BodyLimit,
    Credential,
    DialectName,
    Leases,
    LedgerFailure,
    ModelFamilies,
    ModelFamily,
    ModelName,
    Moment,
    Name,
    OpaquePaths,
    OutputTokens,
    PartitionKey,
    QuotaName,
    Rate,
    RouteName,
    Sha256,
    Url,
    VersionPath,
)
from tokenweir.config.timeout_entry import TimeoutEntry
from tokenweir.config.tokenize_entry import (
    Calibration,
    CalibrationOfModel,
    MessageTokens,
    TokenizeEntry,
    Tokenizer,
)

RATE_FIELDS = (
    "requests_per_minute",
    "tokens_per_minute",
    "input_tokens_per_minute",
    "output_tokens_per_minute",
)
BUDGET_FIELDS = ("budget_usd", "budget_tokens")
AXIS_FIELDS = (*RATE_FIELDS, "concurrency", *BUDGET_FIELDS)


_NOT_EMPTY: dict[str, JsonValue] = {"minProperties": 1}


class ProviderEntry(Entry):
    """Who runs models."""

    base_url: Url = Field(
        description="Root that the app's path, `/v1/…`, is put behind: `http` or "
        "`https`, host, port, path prefix. A `/v1` at its end is dropped, as are Azure's "
        "`/openai` and Gemini's `/v1beta`."
    )
    dialect: DialectName = Field(description="Wire format that the provider speaks.")
    credential: Credential | None = Field(
        default=None,
        description="Where the provider's key is: `env:NAME` or `file:/path`, never "
        "the key itself. Without it the app's own headers are passed on.",
    )
    ca_file: AbsolutePath | None = Field(
        default=None,
        description="PEM bundle that the provider's certificate is checked against, "
        "instead of the system's.",
    )
    cert_file: AbsolutePath | None = Field(
        default=None,
        description="PEM certificates, ours first, by which Envoy says to the provider "
        "who it is (mTLS). With `key_file`.",
    )
    key_file: AbsolutePath | None = Field(
        default=None,
        description="PEM private key of `cert_file`, without a passphrase. Envoy and "
        "the processor read both where they are.",
    )
    unknown_paths: OpaquePaths = Field(
        default=(),
        description="What becomes of a request whose method and path are not known: "
        "`refuse`; `opaque`: all pass, metered by requests and concurrency only; or a "
        "list of those that pass so, such as `POST /v1/vector_stores` or "
        "`GET /v1/files/*`.",
        json_schema_extra={"default": "refuse"},
    )
    priced_as: Name | None = Field(
        default=None,
        description="Whose list prices count: a provider as genai-prices or litellm "
        "calls it, such as `azure`. Without it: told by `base_url`, else by the "
        "provider's name here if price lists know it.",
    )
    output_cap_field: Literal["max_completion_tokens", "max_tokens"] | None = Field(
        default=None,
        description="Where it takes a cap on output that the policy sets and the app did "
        "not. Without it: `max_completion_tokens` in the OpenAI API, which some servers "
        "know as `max_tokens` only. An app's own cap stays where it is.",
    )
    version_path: VersionPath | None = Field(
        default=None,
        description="What the provider's paths begin with where apps' have `/v1`, such "
        'as `/v4`, or nothing (`""`). Without it: `/v1`.',
    )
    ask_for_usage: bool = Field(
        default=True,
        description="Whether streams are asked for their usage where the app did not ask "
        "(`stream_options`). `false` for servers of the OpenAI API that refuse to be "
        "asked, such as Mistral's, which report it in any case.",
    )
    http2: bool = Field(
        default=False,
        description="Speaks HTTP/2 over plain `http` (h2c). Over `https` ALPN tells.",
    )
    allow_plaintext: bool = Field(
        default=False,
        description="Lets the credential go over plain `http` to another machine.",
    )


class ModelEntry(Entry):
    """What answers."""

    provider: Name = Field(description="Name of the provider that runs it.")
    upstream_model: ModelName | None = Field(
        default=None,
        description="The provider's name for it. Without it: the name that the app "
        "used.",
    )
    max_output_tokens: OutputTokens = Field(
        default=16_384,
        description="The most that it can generate in one answer: what is reserved is "
        "never more, nor is what a cut answer is charged. If it is set, reports far "
        "above it are not believed.",
    )
    default_output_tokens: OutputTokens | None = Field(
        default=None,
        description="What is reserved if the app sets no cap. Without it: 4096, or "
        "`max_output_tokens` if that is less.",
    )
    tokenizer: Tokenizer = None
    message_tokens: MessageTokens = None
    tokenize: TokenizeEntry | None = Field(
        default=None,
        description="A server that is asked how many tokens a prompt has, such as the "
        "model's own vLLM. Without it: none is.",
    )
    calibration: CalibrationOfModel = None
    timeout_class: Name | None = Field(
        default=None,
        description="Class from `timeouts`. Without it: the route's, else `default`.",
    )


class QuotaEntry(BudgetFields):
    """A limit: exactly one axis, and whose it is."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": [axis]} for axis in AXIS_FIELDS],
            "dependentRequired": {axis: ["per"] for axis in BUDGET_FIELDS},
        }
    )

    requests_per_minute: Rate | None = Field(
        default=None, description="Axis: attempts sent to providers, per minute."
    )
    tokens_per_minute: Rate | None = Field(
        default=None, description="Axis: tokens per minute, of the kind in `counts`."
    )
    input_tokens_per_minute: Rate | None = Field(
        default=None, description="Axis: tokens that go in, per minute."
    )
    output_tokens_per_minute: Rate | None = Field(
        default=None, description="Axis: tokens that are generated, per minute."
    )
    concurrency: Annotated[int, Field(ge=1, le=MAX_CONCURRENCY)] | None = Field(
        default=None, description="Axis: exchanges in flight."
    )
    counts: Literal["total", "input", "output"] | None = Field(
        default=None,
        description="What `tokens_per_minute` counts. Without it: `total`.",
    )
    capacity: Rate | None = Field(
        default=None,
        description="The most that can be taken at once. Without it: one minute's "
        "worth. Only for limits per minute.",
    )
    partition: Annotated[list[PartitionKey], Field(min_length=1)] | None = Field(
        default=None,
        description="What the limit is kept apart by. In a tenant's quota that is "
        "always the tenant, and nothing else without this field.",
    )
    mode: Literal["enforce", "shadow"] = Field(
        default="enforce",
        description="`shadow`: evaluated and reported, but nobody is refused.",
    )
    stagger: bool = Field(
        default=False,
        description="Callers that are refused at about the same time are told, in "
        "headers, to come back one after the other: later than their true wait by at "
        "most a minute. Not for budgets.",
    )
    leases: Leases = False
    models: ModelFamilies | None = Field(
        default=None,
        description="Only for these models (names; a `*` at the end for a family).",
    )
    routes: Annotated[list[RouteName], Field(min_length=1)] | None = Field(
        default=None, description="Only for these routes."
    )
    on_ledger_failure: LedgerFailure | None = Field(
        default=None,
        description="If the ledger gives no answer: `closed` refuses with 503, `open` "
        "admits, `bounded` does within `leases`. Without it: the tenant's.",
    )
    name: QuotaName | None = Field(
        default=None,
        description="Last part of the quota's id. Needed where two quotas of one "
        "tenant have the same axis, `per` and partition.",
    )

    @property
    def axis(self) -> str:
        """The name of the field that says what is limited."""
        return next(axis for axis in AXIS_FIELDS if getattr(self, axis) is not None)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        axes = [axis for axis in AXIS_FIELDS if getattr(self, axis) is not None]
        if len(axes) != 1:
            raise ValueError(f"must have exactly one of {', '.join(AXIS_FIELDS)}")
        if self.counts and self.tokens_per_minute is None:
            raise ValueError("has `counts`, which only goes with tokens_per_minute")
        if self.capacity is not None and self.axis not in RATE_FIELDS:
            raise ValueError(
                f"has `capacity`, which {self.axis} has none of: remove it"
            )
        if self.stagger and self.axis in BUDGET_FIELDS:
            raise ValueError(
                "has `stagger`, but a budget's callers come back when its window "
                "turns: remove it"
            )
        return self


class KeyEntry(Entry):
    """What proves who pays."""

    id: Name = Field(
        description="How the key is called in logs and metrics. Unique in the policy."
    )
    sha256: Sha256 = Field(
        description="SHA-256 of the key, in hex: `tokenweir keys new` or "
        "`tokenweir keys hash` prints it. The key itself is kept nowhere."
    )
    models: ModelFamilies | None = Field(
        default=None,
        description="Models that the key may call (names; a `*` at the end for a "
        "family). Without it: those of the tenant.",
    )
    routes: Annotated[list[RouteName], Field(min_length=1)] | None = Field(
        default=None,
        description="Routes that the key may be used for. Without it: all.",
    )
    expires_at: Moment | None = Field(
        default=None,
        description="From when on the key is refused, such as `2027-01-31T00:00:00Z`: "
        "with an offset from UTC or `Z`. Without it: it does not expire.",
    )
    quotas: list[QuotaEntry] = Field(
        default_factory=list,
        description="Limits of this key alone, besides its tenant's.",
    )


class TenantEntry(Entry):
    """Who pays."""

    keys: list[KeyEntry] = Field(
        default_factory=list, description="API keys that prove to be this tenant."
    )
    quotas: list[QuotaEntry] = Field(
        default_factory=list, description="Limits of this tenant alone."
    )
    models: ModelFamilies | None = Field(
        default=None,
        description="Models that it may call (names; a `*` at the end for a family). "
        "Without it: all.",
    )
    on_ledger_failure: LedgerFailure | None = Field(
        default=None,
        description="Default for the tenant's quotas, and for exchanges that no quota "
        "applies to. Without it: the policy's.",
    )


class PolicyFile(Entry):
    """The whole file."""

    version: Literal[1] = Field(description="Of this format: 1.")
    # That these three have entries is checked by `compile`: by then the wrong ones
    # may have been left out.
    providers: dict[Name, ProviderEntry] = Field(
        description="Who runs models, by name.", json_schema_extra=_NOT_EMPTY
    )
    models: dict[ModelFamily, ModelEntry] = Field(
        description="What answers, by the name that apps use. A name that ends in `*` "
        "is a family: it stands for all that begin so and have no entry of their own; "
        "the longest wins.",
        json_schema_extra=_NOT_EMPTY,
    )
    tenants: dict[Name, TenantEntry] = Field(
        description="Who pays, by name.", json_schema_extra=_NOT_EMPTY
    )
    quotas: list[QuotaEntry] = Field(
        default_factory=list,
        description="Limits that every tenant has too. `partition` is needed here, and "
        "says if tenants share one.",
    )
    caps: list[CapEntry] = Field(
        default_factory=list,
        description="How long answers may be. Of all that apply to a request the lowest "
        "counts.",
    )
    audit: AuditEntry = Field(
        default_factory=AuditEntry,
        description="What is kept of prompts. Without it: hashes and costs, no text.",
    )
    single_tenant: Name | None = Field(
        default=None,
        description="Every caller is this tenant, whatever key it sends: for a sidecar "
        "that serves one app.",
    )
    default_providers: dict[DialectName, Name] = Field(
        default_factory=dict,
        description="Provider of requests that name no model, by dialect. Without it: "
        "the first of each dialect.",
    )
    timeouts: dict[Name, TimeoutEntry] = Field(
        default_factory=dict,
        description="Timeout classes by name. The class `default` is always there.",
    )
    route_timeouts: dict[RouteName, Name] = Field(
        default_factory=dict, description="Timeout class, by route."
    )
    responses: ResponsesEntry = Field(
        default_factory=ResponsesEntry,
        description="Who reads answers. Without it: whatever is cheapest.",
    )
    retries: Annotated[int, Field(ge=0, le=MAX_RETRIES)] = Field(
        default=2,
        description="Attempts after the first, of what cannot have worked already.",
    )
    body_limit: BodyLimit = Field(
        default=8 * 1024 * 1024,
        description="The largest request body: bytes or `8MiB`, 1 KiB to 64 MiB.",
        json_schema_extra={"default": "8MiB"},
    )
    on_ledger_failure: LedgerFailure = Field(
        default="closed", description="Default for tenants: see there."
    )
    calibration: Calibration = True
    prices: PricesEntry = Field(
        default_factory=PricesEntry,
        description="What is not public about prices. Without it: list prices.",
    )
    notifications: NotificationsEntry = Field(
        default_factory=NotificationsEntry,
        description="Who is told what budgets have passed, besides log and metrics.",
    )
