"""Who reads answers: the section `responses` of the policy file."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tokenweir.config.entry import Entry
from tokenweir.config.scalar import RouteName

PathName = Literal["auto", "native", "observe", "inspect"]


class ResponsesEntry(Entry):
    """Who reads answers, and so what a streamed chunk costs."""

    path: PathName = Field(
        default="auto",
        description="`native`: Envoy itself; `observe`: the processor, from a copy; "
        "`inspect`: the processor, in line; `auto`: the cheapest that will do.",
    )
    routes: dict[RouteName, PathName] = Field(
        default_factory=dict, description="The same, by route."
    )
