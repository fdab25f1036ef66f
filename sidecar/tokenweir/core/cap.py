"""A rule of the policy on how long answers may be; `caps` says what follows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cap:
    """
    The most that an answer may be long, in tokens of one choice.

    Attributes:
        output_tokens: What the app's own cap is lowered to; None: it is not.
        if_unset: What is set if the app has no cap; None: *output_tokens*.
        models: Only for these names (exact, or ending in ``*``); empty: for all.
        routes: Only for these routes; empty: for all.
        tenants: Only for these; empty: for all.
    """

    output_tokens: int | None = None
    if_unset: int | None = None
    models: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
