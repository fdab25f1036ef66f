"""Who can be asked for counts of tokens: `models.*.tokenize` of the policy file."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    Field,
    JsonValue,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from tokenweir.config.base_url import BaseUrl, parse_base_url
from tokenweir.config.entry import Entry
from tokenweir.config.scalar import Credential, Duration, HeaderName
from tokenweir.core.tokenizer_name import path_in

MAX_DEADLINE_MS = 1_000
MAX_BYTES = 64 * 1024 * 1024
MAX_URL_CHARS = 2_048
URL_PATTERN = r"^https?://[^#@\s]+$"
_URL = re.compile(r"(?P<origin>https?://[^/?#]*)([/?][!-\"$-~]*)?", re.IGNORECASE)
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
# A family's name, or where a file is. Control characters are in no path.
TOKENIZER = re.compile(rf"{_NAME}|file:/[^\x00-\x1f\x7f]{{1,4000}}")
_DEADLINE: dict[str, JsonValue] = {"default": "100ms"}


def parse_tokenizer(value: object) -> str:
    """
    Return *value*, which names a family or a file.

    Raises: ValueError.
    """
    if not isinstance(value, str) or not TOKENIZER.fullmatch(value):
        raise ValueError(
            "must be the name of a family such as `qwen`, or `file:` and the absolute "
            "path of a tokenizer.json"
        )
    return value


def is_file(tokenizer: str) -> bool:
    """Tell if *tokenizer* names a file."""
    return path_in(tokenizer) is not None


def parse_tokenize_url(value: object) -> str:
    """
    Return *value*, a URL that can be posted to.

    Raises:
        ValueError: Says what is wrong, without a part of *value*.
    """
    match = _URL.fullmatch(value) if isinstance(value, str) else None
    if not isinstance(value, str) or match is None or len(value) > MAX_URL_CHARS:
        raise ValueError("must be a URL such as http://vllm:8000/tokenize")
    if "@" in match["origin"]:
        raise ValueError("must not hold a user name or password: use `credential`")
    parse_base_url(match["origin"])
    return value


def origin_of(url: str) -> BaseUrl:
    """Return the server that *url*, which was parsed, is at."""
    match = _URL.fullmatch(url)
    assert match is not None
    return parse_base_url(match["origin"])


def _bounded(duration_ms: int) -> int:
    if not 1 <= duration_ms <= MAX_DEADLINE_MS:
        raise ValueError("must be above 0, and at most 1s: admission waits for it")
    return duration_ms


_Tokenizer = Annotated[
    str,
    PlainValidator(parse_tokenizer),
    WithJsonSchema({"type": "string", "pattern": f"^(?:{_NAME}|file:/.+)$"}),
]
Tokenizer = Annotated[
    _Tokenizer | None,
    Field(
        description="What counts for it: a tokenizer family, or `file:` and the absolute "
        "path of a `tokenizer.json`. Without it: chosen by the model's name."
    ),
]
MessageTokens = Annotated[
    Annotated[int, Field(ge=0, le=1_000)] | None,
    Field(
        description="Tokens that its chat template puts around each message. Without "
        "it: as usual for its family."
    ),
]
Calibration = Annotated[
    bool,
    Field(
        description="Whether estimates of tokens are corrected by what reports have "
        "taught, and reports teach. `false`: built-in ratios stay as they are."
    ),
]
CalibrationOfModel = Annotated[
    bool | None,
    Field(
        description="Whether its estimates are corrected by what reports have taught. "
        "Without it: the policy's."
    ),
]
Size = Annotated[int, Field(ge=0, le=MAX_BYTES)]


class TokenizeEntry(Entry):
    """Who can be asked how many tokens a prompt has: a server with vLLM's `/tokenize`."""

    url: Annotated[
        str,
        PlainValidator(parse_tokenize_url),
        WithJsonSchema({"type": "string", "pattern": URL_PATTERN}),
    ] = Field(description="Where it is asked, such as `http://vllm:8000/tokenize`.")
    credential: Credential | None = Field(
        default=None,
        description="Where what is sent in `header` is: `env:NAME` or `file:/path`. In "
        "`authorization` it is sent as a bearer's token.",
    )
    header: HeaderName = Field(
        default="authorization", description="Header that the credential is sent in."
    )
    deadline: Annotated[Duration, AfterValidator(_bounded)] = Field(
        default=100,
        description="How long an answer may take: seconds or `100ms`, at most 1 s. Then "
        "tokens are counted here.",
        json_schema_extra=_DEADLINE,
    )
    min_bytes: Size = Field(
        default=0, description="Smaller prompts are counted here, without asking."
    )
    max_bytes: Size = Field(
        default=1_000_000, description="Larger prompts are counted here, too."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.min_bytes > self.max_bytes:
            raise ValueError("has a `min_bytes` above its `max_bytes`: none is asked")
        return self
