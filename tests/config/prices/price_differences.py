"""
Where genai-prices and litellm's table differ, as the page docs/price-differences.md.

    python -m tests.config.prices.price_differences TABLE >docs/price-differences.md

TABLE is `model_prices_and_context_window_backup.json` out of the package litellm. It
is read as an overlay is, so that this also tries our reading of that form.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tokenweir.config.prices.catalogue import SOURCE, Catalogue
from tokenweir.config.prices.overlay import load_overlay
from tokenweir.core.cost import Served, cost_nanousd
from tokenweir.core.price import ModelPrice, Rate, TokenClass, Unpriced
from tokenweir.core.usage import TokenUsage

# Noon of 2026-11-30, UTC: outside of anybody's off-peak hours.
NOW_MS = 1_796_040_000_000
TIERS = ("default", "flex", "priority", "batch")
USAGES = (
    TokenUsage(1_000, output_tokens=500),
    TokenUsage(100, 900, output_tokens=500),
    TokenUsage(10, 20, 30, output_tokens=5),
    TokenUsage(10, 0, 0, 30, output_tokens=5),
    TokenUsage(300_000, 1_000, output_tokens=11),
    TokenUsage(100, output_tokens=5, reasoning_tokens=50),
    TokenUsage(10, 0, 0, 0, 30, 20, 0, 40),
    TokenUsage(100, image_input_tokens=50, output_tokens=5, image_output_tokens=7),
)
# litellm's providers that both know, and what genai-prices calls them.
PROVIDERS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "gemini": "google",
    "vertex_ai-language-models": "google",
    "vertex_ai-anthropic_models": "google",
    "azure": "azure",
    "bedrock": "aws",
    "bedrock_converse": "aws",
    "xai": "x-ai",
    "mistral": "mistral",
    "groq": "groq",
    "deepseek": "deepseek",
    "cohere": "cohere",
    "cohere_chat": "cohere",
    "together_ai": "together",
    "fireworks_ai": "fireworks",
    "perplexity": "perplexity",
    "cerebras": "cerebras",
    "moonshot": "moonshotai",
    "voyage": "voyageai",
}


@dataclass
class Comparison:
    """
    One of litellm's providers.

    Attributes:
        models: Names that both lists have.
        equal: Costs that are the same.
        unequal: Costs that are not.
        one_sided: Costs that only one list can tell.
        differences: Models, by what is different.
    """

    models: int = 0
    equal: int = 0
    unequal: int = 0
    one_sided: int = 0
    differences: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


def compare(table: Path) -> dict[str, Comparison]:
    """Return the comparison of each provider in *table* that both know."""
    overlay, catalogue = load_overlay(table), Catalogue()
    found: dict[str, Comparison] = {name: Comparison() for name in PROVIDERS}
    for name, provider in litellm_providers(table):
        theirs = overlay.prices.get(name.lower())
        ours = catalogue.find(_bare(name, provider), PROVIDERS[provider])
        if theirs is None or isinstance(ours, Unpriced):
            continue
        comparison = found[provider]
        comparison.models += 1
        for tier in TIERS:
            _compare_costs(comparison, ours, theirs, tier)
            for text in _differences(ours, theirs, tier):
                comparison.differences[text].append(name)
    return found


def litellm_providers(table: Path) -> Iterator[tuple[str, str]]:
    """Yield names of models in *table*, and litellm's names of who sells them."""
    import json  # noqa: PLC0415 -- the overlay's reader leaves these fields out

    for name, entry in json.loads(table.read_text()).items():
        if entry.get("litellm_provider") in PROVIDERS:
            yield name, entry["litellm_provider"]


def _bare(name: str, provider: str) -> str:
    return name if provider == "openai" else name.split("/", 1)[-1]


def _compare_costs(
    comparison: Comparison, ours: ModelPrice, theirs: ModelPrice, tier: str
) -> None:
    for usage in USAGES:
        served = Served(NOW_MS, tier)
        costs = [cost_nanousd(usage, price, served) for price in (ours, theirs)]
        priced = [cost for cost in costs if not isinstance(cost, Unpriced)]
        comparison.one_sided += len(priced) == 1
        if len(priced) == 2:
            comparison.equal += priced[0] == priced[1]
            comparison.unequal += priced[0] != priced[1]


def _differences(ours: ModelPrice, theirs: ModelPrice, tier: str) -> Iterator[str]:
    """Yield what is different, price by price; nothing where one has no tier."""
    listed, table = ours.rates(NOW_MS, tier), theirs.rates(NOW_MS, tier)
    if listed is None or table is None:
        return
    if listed.request_picousd != table.request_picousd:
        yield f"{tier}: a fee for each request in one list only"
    for name in TokenClass:
        ours_has, theirs_has = name in listed.by_class, name in table.by_class
        left, right = listed.of(name), table.of(name)
        if left == right or not (ours_has or theirs_has):
            continue
        if left is None or right is None:
            side = "litellm" if left is None else "genai-prices"
            yield f"{tier}: {_words(name)}: only {side} has a price"
        elif ours_has != theirs_has:
            side = "genai-prices" if ours_has else "litellm"
            yield f"{tier}: {_words(name)}: only {side} has a price of its own"
        elif left.base == right.base:
            yield f"{tier}: {_words(name)}: prices by length differ"
        else:
            yield f"{tier}: {_words(name)}: {_relation(left, right)}"


def _words(name: TokenClass) -> str:
    return name.replace("_tokens", "").replace("_", " ")


def _relation(left: Rate, right: Rate) -> str:
    return "genai-prices is higher" if left.base > right.base else "litellm is higher"


# === the page =====================================================================

_INTRODUCTION = """\
# Where price lists differ

Costs by {source} and by litellm's table ({table}), for every model that both know: \
eight usages (plain, cached, written to both caches, above 272,000 tokens, reasoning, \
audio, pictures) at four tiers, as of noon of 30 November 2026. Made by \
`tests/config/prices/price_differences.py`; [prices.md](prices.md) says how prices are \
found.

Our reading of litellm's form was compared with litellm's own arithmetic \
(`generic_cost_per_token`, 1.110.2) apart from this: 7,730 of 7,776 costs are the same. \
The others: tiers without a price of their own for long inputs, where litellm takes that \
of the default tier for some classes (24); caches of Gemini, which litellm charges as \
fresh input while they are written (14); two names that stand for two entries each (8).

What the differences come from, and which side we err on:

- **One list has a price that the other lacks.** A class without a price of its own is \
charged like the one that it follows, which is dearer: cached input as input. Of Anthropic's \
one-hour cache writes in batches, litellm has no price: there they cost what they do \
outside of a batch. Most rows below are of this kind.
- **Prices by length.** genai-prices keeps Claude Sonnet 4.5's and 4's price for inputs \
above 200,000 tokens, which litellm has dropped on some platforms and not on others.
- **Regions.** litellm knows prices by region of Bedrock and by data zone of Azure; \
genai-prices has one for all regions, 10 % above the global one, or none. A name that \
says where a model runs is unknown unless the list has a price for all regions.
- **Names that move.** `mistral-large-latest`, `gemini-flash-latest` and the like mean \
different models on the two days on which the lists were made.
- **Age.** One of the two has not heard of a change yet, such as of Grok Code Fast.
- **Hours.** DeepSeek's prices are lower at night; litellm has one price.
- **Fees.** genai-prices has Perplexity's fee for each request, litellm has it as a price \
of searches, which is none of tokens.

Who needs litellm's figure gives its table, or the entries in question, as an overlay.
"""


def page(table: Path, version: str) -> Iterator[str]:
    """Yield the lines of the page."""
    found = compare(table)
    yield _INTRODUCTION.format(source=SOURCE, table=version)
    yield "| provider, in litellm's words | models | costs equal | unequal | in one list only |"
    yield "|---|---|---|---|---|"
    for provider, one in found.items():
        yield (
            f"| {provider} | {one.models} | {one.equal:,} | {one.unequal:,} "
            f"| {one.one_sided:,} |"
        )
    for provider, one in found.items():
        if one.differences:
            yield f"\n## {provider}\n"
        for text, models in sorted(one.differences.items()):
            yield f"- {text}: {_some(models)}"


def _some(models: list[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in models[:6])
    more = len(models) - 6
    return f"{shown} and {more} more" if more > 0 else shown


if __name__ == "__main__":
    print("\n".join(page(Path(sys.argv[1]), "1.110.2")))  # noqa: T201 -- its output
