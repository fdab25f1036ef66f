"""Where prices are looked up."""

from __future__ import annotations

from typing import Protocol

from tokenweir.core.price import ModelPrice


class PriceBook(Protocol):
    """
    All prices that are known; it does not change.

    Providers are named as in the policy, models as their providers name them. None is
    no price, which is not 0.
    """

    def find(self, provider: str, model: str) -> ModelPrice | None:
        """Return the price of *model*."""

    def answered(self, provider: str, model: str, by: str | None) -> ModelPrice | None:
        """Return the price of what answered for *model* and calls itself *by*."""


class NoPrices:
    """A book that is empty."""

    def find(self, provider: str, model: str) -> ModelPrice | None:  # noqa: ARG002
        """See `PriceBook`."""
        return None

    def answered(self, provider: str, model: str, by: str | None) -> ModelPrice | None:  # noqa: ARG002
        """See `PriceBook`."""
        return None


NO_PRICES = NoPrices()
