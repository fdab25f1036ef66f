"""
What a quota says that is a budget: over which window, and what follows.

    {budget_usd: 50, per: day, time_zone: Asia/Tokyo, on_exceeded: {downgrade_to: small}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, get_args
from zoneinfo import ZoneInfo

from pydantic import (
    BeforeValidator,
    Field,
    JsonValue,
    PlainValidator,
    WithJsonSchema,
)

from tokenweir.config.entry import Entry
from tokenweir.config.money import DOLLARS_PATTERN, MAX_USD, parse_time_zone, parse_usd
from tokenweir.config.scalar import ModelName
from tokenweir.core.budget import MAX_SPENT

Weekday = Literal[
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"
]
WEEKDAYS: tuple[str, ...] = get_args(Weekday)

MAX_CHAIN = 8

_UNIQUE: dict[str, JsonValue] = {"uniqueItems": True}

Usd = Annotated[
    int,
    PlainValidator(parse_usd),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_USD},
                {"type": "string", "pattern": DOLLARS_PATTERN},
            ]
        }
    ),
]
Tokens = Annotated[int, Field(ge=1, le=MAX_SPENT)]
TimeZone = Annotated[
    ZoneInfo, PlainValidator(parse_time_zone), WithJsonSchema({"type": "string"})
]
Percent = Annotated[int, Field(ge=1, le=100)]


def _as_list(value: object) -> list[object]:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not value:
        raise ValueError("must be a model's name, or a list of some")
    if any(value.count(name) > 1 for name in value[:MAX_CHAIN]):
        raise ValueError("must name each model once")
    return value


def _as_entry(value: object) -> Mapping[str, object]:
    if value == "block":
        return {}
    if isinstance(value, Mapping):
        return value
    raise ValueError(
        "must be `block`, or a mapping with `downgrade_to` or `throttle_percent`"
    )


Chain = Annotated[
    list[ModelName],
    Field(max_length=MAX_CHAIN),
    BeforeValidator(
        _as_list,
        json_schema_input_type=ModelName
        | Annotated[
            list[ModelName],
            Field(min_length=1, max_length=MAX_CHAIN, json_schema_extra=_UNIQUE),
        ],
    ),
]


class AnchorEntry(Entry):
    """When windows begin, if not at midnight, on Mondays, on the first."""

    hour: Annotated[int, Field(ge=0, le=23)] = Field(
        default=0, description="0 to 23, at which days, weeks and months begin."
    )
    weekday: Weekday | None = Field(
        default=None, description="On which weeks begin. Without it: `monday`."
    )
    day: Annotated[int, Field(ge=1, le=31)] | None = Field(
        default=None,
        description="On which months begin; in a shorter month its last day. Without "
        "it: 1.",
    )


class OnExceededEntry(Entry):
    """What follows once a budget is spent. Without any field: `block`."""

    downgrade_to: Chain | None = Field(
        default=None,
        description="A cheaper model that answers instead, or a list of up to eight, "
        "of which the first that fits does. This budget records what that costs, and "
        "does not refuse it up to its hard limit.",
    )
    throttle_percent: Annotated[int, Field(ge=1, le=99)] | None = Field(
        default=None,
        description="What is left of the limits per minute, in percent, for whoever has "
        "spent it.",
    )
    hard_limit_usd: Usd | None = Field(
        default=None,
        description="Of a budget in USD: what even downgraded or throttled calls may "
        "not pass. Needed unless another budget stops them.",
    )
    hard_limit_tokens: Tokens | None = Field(
        default=None, description="The same for a budget in tokens."
    )


OnExceeded = Annotated[
    OnExceededEntry,
    BeforeValidator(
        _as_entry, json_schema_input_type=Literal["block"] | OnExceededEntry
    ),
]


class BudgetFields(Entry):
    """The fields of a quota that only budgets have."""

    budget_usd: Usd | None = Field(
        default=None,
        description="Axis: money for each window, in US dollars: a number, or text.",
    )
    budget_tokens: Tokens | None = Field(
        default=None, description="Axis: tokens for each window, input and output."
    )
    per: Literal["hour", "day", "week", "month"] | None = Field(
        default=None, description="Window of a budget, by the calendar. Needed for one."
    )
    time_zone: TimeZone | None = Field(
        default=None,
        description="Whose calendar a budget goes by: a name such as `Asia/Tokyo`. "
        "Without it: `UTC`.",
    )
    anchor: AnchorEntry | None = Field(
        default=None, description="When the windows of a budget begin."
    )
    on_exceeded: OnExceeded | None = Field(
        default=None,
        description="What follows once a budget is spent: `block`, or a mapping. "
        "Without it: `block`.",
    )
    alerts: Annotated[list[Percent], Field(max_length=10)] | None = Field(
        default=None,
        description="Percentages of a budget. That they are spent is told once a "
        "window, in log and metrics. Without it: 50, 80 and 95.",
    )
