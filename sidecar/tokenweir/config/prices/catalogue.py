"""
genai-prices' list of prices, compiled model by model as they are asked for.

It is the copy that was installed: nothing is fetched.
"""

from __future__ import annotations

import re
from importlib.metadata import version

from genai_prices.data import providers as PROVIDERS  # noqa: N812 -- it is a constant
from genai_prices.types import ModelInfo, Provider

from tokenweir.config.prices.compile import compile_price
from tokenweir.config.prices.match import means
from tokenweir.config.prices.names import (
    model_of_arn,
    provider_called,
    split_provider,
)
from tokenweir.core.price import ModelPrice, Unpriced, WhyUnpriced

SOURCE = f"genai-prices {version('genai-prices')}"

# OpenRouter and others write dates without dashes where OpenAI writes them with.
_COMPACT_DATE = re.compile(r"-(20\d\d)(\d\d)(\d\d)(?=$|[-:])")


class Catalogue:
    """The list. Threads may share it: what two of them find at once is the same."""

    def __init__(self) -> None:
        self._by_id = {provider.id: provider for provider in PROVIDERS}
        self._compiled: dict[tuple[str, str, str], ModelPrice] = {}

    def find(self, name: str, provider: str | None = None) -> ModelPrice | Unpriced:
        """
        Return the prices of the model that is called *name*.

        Args:
            name: As it is called in requests or responses, with or without a
                provider before it and a date behind it.
            provider: Who runs it, as genai-prices or litellm calls it. None: who is
                named before it, else its maker.

        Returns:
            `Unpriced` if there is none, or only one with a name that begins alike.
        """
        seller, model_name = self._seller(name, provider)
        lower = model_of_arn(model_name)
        if seller is None or lower is None:
            return Unpriced(WhyUnpriced.MODEL, name)
        model = seller.find_model(lower, all_providers=PROVIDERS)
        if model is None:
            return Unpriced(WhyUnpriced.MODEL, name)
        if not (means(model, lower) or means(model, _COMPACT_DATE.sub(_dashed, lower))):
            return Unpriced(WhyUnpriced.MODEL, name, f"{seller.id}/{model.id}")
        return self._compile(model, seller)

    def provider_of(self, base_url: str) -> str | None:
        """Return whose API is at *base_url*, None if that can't be told."""
        for provider in PROVIDERS:
            if re.match(provider.api_pattern, base_url):
                return provider.id
        return None

    def _seller(self, name: str, provider: str | None) -> tuple[Provider | None, str]:
        before, rest = split_provider(name)
        named = provider_called(before)
        if provider is not None:
            called = provider_called(provider)
            return self._by_id.get(called), rest if named == called else name
        if named in self._by_id:
            return self._by_id[named], rest
        for maker in PROVIDERS:
            if maker.model_match is not None and maker.model_match.is_match(name):
                return maker, name
        return None, name

    def _compile(self, model: ModelInfo, seller: Provider) -> ModelPrice:
        own = any(model is offered for offered in seller.models)
        key = (seller.id, model.id, "own" if own else "borrowed")
        if key not in self._compiled:
            self._compiled[key] = compile_price(model, seller.id, SOURCE, variants=own)
        return self._compiled[key]


def _dashed(date: re.Match[str]) -> str:
    return f"-{date[1]}-{date[2]}-{date[3]}"
