"""
What a model costs, from whichever source knows it, in order of precedence:

    1. overlays, the last one given first
    2. genai-prices

Which model is meant is a matter of configuration: the name and the provider come from
the policy, and an overlay may say that a name stands for another model. What the
provider's response calls the model only tells which make of that model it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tokenweir.config.prices.names import providers_alike, split_provider, stem
from tokenweir.config.prices.overlay import Overlay
from tokenweir.core.price import ModelPrice, Unpriced

if TYPE_CHECKING:
    from tokenweir.config.prices.catalogue import Catalogue

# Names of models come from requests, so what is remembered of them is bounded.
MAX_REMEMBERED = 4_096


class PriceBook:
    """All prices. Threads may share it: what two of them find at once is the same."""

    def __init__(self, overlays: Sequence[Overlay] = ()) -> None:
        """*overlays*: the last one comes first."""
        self._overlays = tuple(reversed(overlays))
        self._opened: Catalogue | None = None
        self._remembered: dict[tuple[str, str | None], ModelPrice | Unpriced] = {}

    def __eq__(self, other: object) -> bool:
        """Tell if *other* has the same overlays: nothing else differs."""
        return isinstance(other, PriceBook) and self._overlays == other._overlays

    def __hash__(self) -> int:
        return hash(len(self._overlays))

    def price(self, name: str, provider: str | None = None) -> ModelPrice | Unpriced:
        """
        Return the prices of the model *name*.

        *provider* is who runs it, as genai-prices or litellm calls it: `provider_of`
        tells it for a URL. None: who is named before the model, else its maker.
        """
        key = (name, provider)
        found = self._remembered.get(key)
        if found is None:
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            found = self._remembered[key] = self._find(name, provider)
        return found

    def answered(
        self, name: str, answered_by: str | None, provider: str | None = None
    ) -> ModelPrice | Unpriced:
        """
        Return the prices of the model that answered a request for *name*.

        The response's name for it, *answered_by*, counts if it is another make of the
        same model, or if there is no price for *name*. Else it is not believed: what
        was asked for is what was agreed on.
        """
        asked = self.price(name, provider)
        if not answered_by or answered_by == name:
            return asked
        answering = self.price(answered_by, provider)
        if isinstance(answering, Unpriced):
            return asked
        if isinstance(asked, Unpriced) or self._same(name, answered_by, provider):
            return answering
        return asked

    def provider_of(self, base_url: str) -> str | None:
        """Return whose API is at *base_url*, None if that can't be told."""
        return self._catalogue.provider_of(base_url)

    @property
    def _catalogue(self) -> Catalogue:
        if self._opened is None:
            from tokenweir.config.prices.catalogue import Catalogue  # noqa: PLC0415 -- slow

            self._opened = Catalogue()
        return self._opened

    def _find(self, name: str, provider: str | None) -> ModelPrice | Unpriced:
        own = self._from_overlays(name, provider)
        if own is not None:
            return own
        base = self._base_model(name, provider)
        if base is not None:
            # "azure/gpt-4o" says itself whose it is.
            seller = None if split_provider(base)[0] else provider
            return self._from_overlays(base, seller) or self._listed(base, seller)
        return self._listed(name, provider)

    def _listed(self, name: str, provider: str | None) -> ModelPrice | Unpriced:
        """Return genai-prices' price, or an overlay's for the name without its date."""
        listed = self._catalogue.find(name, provider)
        dateless = stem(name)
        if dateless == name:
            return listed
        # A price of one's own for "gpt-4o" is for all makes of it that cost the same.
        alike = self._catalogue.find(dateless, provider) == listed
        if alike or isinstance(listed, Unpriced):
            return self._from_overlays(dateless, provider) or listed
        return listed

    def _base_model(self, name: str, provider: str | None) -> str | None:
        """Return the model that an overlay says *name* stands for."""
        for overlay in self._overlays:
            for key in _keys(name, provider):
                if key in overlay.base_models:
                    return overlay.base_models[key]
        return None

    def _from_overlays(self, name: str, provider: str | None) -> ModelPrice | None:
        for overlay in self._overlays:
            for key in _keys(name, provider):
                if key in overlay.prices:
                    return overlay.prices[key]
        return None

    def _same(self, name: str, other: str, provider: str | None) -> bool:
        """Tell if both are makes of one model."""
        ours, theirs = (
            split_provider((self._base_model(each, provider) or each).lower())[1]
            for each in (name, other)
        )
        return stem(ours) == stem(theirs)


def _keys(name: str, provider: str | None) -> list[str]:
    """Return the names under which an overlay may have *name*, the closest first."""
    lower = name.lower()
    if provider is None:
        return [lower]
    alike = providers_alike(provider)
    before, rest = split_provider(lower)
    keys = [*(f"{seller}/{lower}" for seller in alike), lower]
    return [*keys, rest] if before in alike else keys
