"""Amounts of US dollars as text: exact, since money is no float."""

from __future__ import annotations

from decimal import Decimal

# Cents are always shown; finer parts where there are some.
MIN_DIGITS = 2


def dollars(figure: int, per_usd: int, digits: int = MIN_DIGITS) -> str:
    """
    Return *figure*, of which *per_usd* (a power of ten) are a US dollar.

    There are *digits* after the point, or more if the amount has more:
    ``"0.25"``, ``"0.000033"``, ``"1200.00"``.
    """
    whole, _, rest = f"{Decimal(figure) / per_usd:f}".partition(".")
    return f"{whole}.{rest.rstrip('0').ljust(digits, '0')}"


def digits_of(figure: int, per_usd: int) -> int:
    """Return how many digits after the point `dollars` needs for *figure*."""
    return len(dollars(figure, per_usd).partition(".")[2])
