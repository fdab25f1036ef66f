"""
What a single value of the policy file may be.

Patterns are part of the published JSON Schema, so they are written for both
Python's and JavaScript's regular expressions.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    Field,
    PlainValidator,
    StringConstraints,
    WithJsonSchema,
)

from tokenweir.config.base_url import BaseUrl, parse_base_url
from tokenweir.config.moment import MOMENT_FORM, parse_moment_ms
from tokenweir.config.quantity import (
    MAX_BODY_BYTES,
    MAX_DURATION_MS,
    MIN_BODY_BYTES,
    parse_body_limit_bytes,
    parse_duration_ms,
)
from tokenweir.config.secret_reference import SecretReference, parse_reference
from tokenweir.config.unknown_paths import OPAQUE_PATH, WORDS, parse_unknown_paths
from tokenweir.core.bucket import MAX_TOKENS

# Every slot in use is a hold in the ledger.
MAX_CONCURRENCY = 100_000

# More than any model generates today, so that a mistyped figure is noticed.
MAX_OUTPUT_TOKENS = 10_000_000

MAX_RETRIES = 10

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
QUOTA_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"
MODEL_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,255}$"
MODEL_FAMILY_PATTERN = r"^([A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}\*?|\*)$"
SHA256_PATTERN = r"^[0-9A-Fa-f]{64}$"
VERSION_PATH_PATTERN = r"^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,62}){0,8}$"
ABSOLUTE_PATH_PATTERN = r"^/[^\x00-\x1f\x7f]{1,4095}$"

HEADER_PATTERN = r"^[A-Za-z][A-Za-z0-9-]{0,63}$"

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
HeaderName = Annotated[str, StringConstraints(pattern=HEADER_PATTERN)]
QuotaName = Annotated[str, StringConstraints(pattern=QUOTA_NAME_PATTERN)]
ModelName = Annotated[str, StringConstraints(pattern=MODEL_NAME_PATTERN)]
ModelFamily = Annotated[str, StringConstraints(pattern=MODEL_FAMILY_PATTERN)]
Sha256 = Annotated[str, StringConstraints(pattern=SHA256_PATTERN)]
VersionPath = Annotated[str, StringConstraints(pattern=VERSION_PATH_PATTERN)]
AbsolutePath = Annotated[str, StringConstraints(pattern=ABSOLUTE_PATH_PATTERN)]

DialectName = Literal["openai", "anthropic", "azure", "gemini", "bedrock"]
RouteName = Literal[
    "chat_completions",
    "messages",
    "responses",
    "completions",
    "embeddings",
    "images",
    "transcriptions",
    "speech",
    "generate_content",
    "embed_content",
    "converse",
    "invoke_model",
    "count_tokens",
    "moderations",
    "models",
    "opaque",
    "other",
]
PartitionKey = Literal["tenant", "key", "user", "route", "model", "provider"]
LedgerFailure = Literal["closed", "open", "bounded"]
Leases = Annotated[
    bool,
    Field(
        description="Processors take slices of the limit and admit out of those by "
        "themselves, where all limits of a request have it: see leases.md."
    ),
]

# Only requests on these have tokens, and cost something.
TOKEN_ROUTES = frozenset(
    {
        *("chat_completions", "messages", "responses", "completions", "embeddings"),
        *("images", "transcriptions", "speech", "generate_content", "embed_content"),
        *("converse", "invoke_model"),
    }
)

# Above that the ledger's arithmetic would not be exact: see `tokenweir.core.bucket`.
Rate = Annotated[int, Field(ge=1, le=MAX_TOKENS)]
OutputTokens = Annotated[int, Field(ge=1, le=MAX_OUTPUT_TOKENS)]
ModelFamilies = Annotated[list[ModelFamily], Field(min_length=1)]

Url = Annotated[
    BaseUrl,
    PlainValidator(parse_base_url),
    WithJsonSchema({"type": "string", "pattern": "^https?://[^@?#]+$"}),
]
Credential = Annotated[
    SecretReference,
    PlainValidator(parse_reference),
    WithJsonSchema({"type": "string", "pattern": "^(env:[A-Za-z_]|file:/)"}),
]
OpaquePaths = Annotated[
    tuple[str, ...],
    PlainValidator(parse_unknown_paths),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": [*WORDS]},
                {
                    "type": "array",
                    "minItems": 1,
                    "items": {"type": "string", "pattern": OPAQUE_PATH},
                },
            ]
        }
    ),
]
Duration = Annotated[
    int,
    PlainValidator(parse_duration_ms),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": MAX_DURATION_MS // 1000},
                {"type": "string", "pattern": "^[0-9]{1,9}(ms|s|m|h)$"},
            ]
        }
    ),
]

Moment = Annotated[
    int,
    PlainValidator(parse_moment_ms),
    WithJsonSchema({"type": "string", "format": "date-time", "pattern": MOMENT_FORM}),
]


def _not_zero(duration_ms: int) -> int:
    if duration_ms == 0:
        raise ValueError("must be above 0: a dead connection would stay for ever")
    return duration_ms


IdleDuration = Annotated[Duration, AfterValidator(_not_zero)]

BodyLimit = Annotated[
    int,
    PlainValidator(parse_body_limit_bytes),
    WithJsonSchema(
        {
            "anyOf": [
                {
                    "type": "integer",
                    "minimum": MIN_BODY_BYTES,
                    "maximum": MAX_BODY_BYTES,
                },
                {"type": "string", "pattern": "^[0-9]{1,9} ?(B|KiB|MiB)$"},
            ]
        }
    ),
]
