"""`tokenweir prices`: what a model costs, and who says so."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from tokenweir.cli import EXIT_FINE, EXIT_PROBLEMS, EXIT_USAGE, Subparsers
from tokenweir.cli.money import dollars
from tokenweir.cli.problems import tell
from tokenweir.cli.table import shown, table
from tokenweir.core.errors import PolicyError
from tokenweir.core.price import (
    INPUT_CLASSES,
    LIKE,
    OUTPUT_CLASSES,
    PICOUSD_PER_USD,
    TOKENS_PER_MILLION,
    ModelPrice,
    Rate,
    Rates,
    TokenClass,
    Unpriced,
    WhyUnpriced,
)

_HELP = "what a model costs, by class of tokens, and who says so"
_DESCRIPTION = """\
Print the prices of a model in USD for a million tokens: each class of tokens, each
tier of service, and prices that depend on the length of the input. They come from
overlays (price files in litellm's form), else from the installed genai-prices;
nothing is fetched. With --policy it is the price that this policy's exchanges pay: of
its `prices`, its provider and the model's name there. docs/prices.md has more.
"""
_PAGE = "docs/prices.md"
_HEADS = {
    TokenClass.INPUT: "input",
    TokenClass.CACHED_INPUT: "cached",
    TokenClass.CACHE_WRITE: "write 5m",
    TokenClass.CACHE_WRITE_1H: "write 1h",
    TokenClass.AUDIO_INPUT: "audio in",
    TokenClass.IMAGE_INPUT: "image in",
    TokenClass.OUTPUT: "output",
    TokenClass.REASONING: "reasoning",
    TokenClass.AUDIO_OUTPUT: "audio out",
    TokenClass.IMAGE_OUTPUT: "image out",
}


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "prices",
        help=_HELP,
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "model", metavar="MODEL", help="its name, such as gpt-4o or azure/gpt-4o"
    )
    parser.add_argument(
        "--provider",
        metavar="NAME",
        help="who runs it (default: who is named before it, else its maker)",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--overlay",
        type=pathlib.Path,
        action="append",
        default=[],
        metavar="FILE",
        help="a price file that comes before genai-prices; the last one comes first",
    )
    source.add_argument(
        "--policy",
        type=pathlib.Path,
        metavar="FILE",
        help="the policy whose prices are meant; MODEL is as apps call it",
    )
    parser.add_argument(
        "--at",
        type=_moment_ms,
        metavar="DATE",
        help="as of then: 2026-11-30 or 2026-11-30T12:00Z (default: now)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the prices."""
    now_ms = int(time.time() * 1000) if arguments.at is None else arguments.at
    if arguments.policy is not None and arguments.provider is not None:
        print("prices: --provider is told by --policy: leave it out", file=sys.stderr)
        return EXIT_USAGE
    price = (
        _price_anywhere(arguments.model, arguments.provider, arguments.overlay)
        if arguments.policy is None
        else _price_of_policy(arguments.model, arguments.policy)
    )
    if price is None:
        return EXIT_PROBLEMS
    if arguments.json:
        print(json.dumps(_document(price, now_ms), indent=2))
    else:
        print(_report(price, now_ms, bold=_is_terminal()))
    return EXIT_FINE


# === where prices are looked up ===================================================


def _price_anywhere(
    model: str, provider: str | None, overlays: Sequence[pathlib.Path]
) -> ModelPrice | None:
    """Return the price; None, and say why, if there is none."""
    from tokenweir.config.prices.book import PriceBook  # noqa: PLC0415 -- slow
    from tokenweir.config.prices.overlay import load_overlay  # noqa: PLC0415 -- slow

    read = []
    for path in overlays:
        try:
            read.append(load_overlay(path))
        except PolicyError as error:
            tell(path, error, sys.stdout, sys.stderr, page=_PAGE)
    if len(read) < len(overlays):
        return None
    price = PriceBook(read).price(model, provider)
    if isinstance(price, Unpriced):
        print(_missing(price), file=sys.stderr)
        return None
    return price


def _price_of_policy(model: str, file: pathlib.Path) -> ModelPrice | None:
    """Return the price, the ceiling too; None, and say why, if there is none."""
    from tokenweir.config.load import load_policy  # noqa: PLC0415 -- slow

    try:
        policy = load_policy(file, os.environ)
    except PolicyError as error:
        tell(file, error, sys.stdout, sys.stderr)
        return None
    entry = policy.model(model)
    if entry is None:
        print(f"prices: {shown(model)} is no model of {file}", file=sys.stderr)
        return None
    name = entry.upstream_model or model
    price = policy.pricing.price(entry.provider, name)
    if price is None:
        print(_missing(Unpriced(WhyUnpriced.MODEL, name)), file=sys.stderr)
    return price


def _missing(unpriced: Unpriced) -> str:
    resembles = (
        f" It is not {unpriced.what}, which only begins alike." if unpriced.what else ""
    )
    return (
        f"prices: {shown(unpriced.model)} has no price.{resembles} Is the provider "
        f"right? Else an overlay can give it one, or a base_model: see {_PAGE}."
    )


# === what is printed ==============================================================


def _report(price: ModelPrice, now_ms: int, *, bold: bool) -> str:
    tiers = list(_tiers(price, now_ms))
    priced = {name for _, rates in tiers for name in rates.by_class}
    columns = [name for name in _HEADS if name in priced]
    rows = [
        [tier, _length(above), *(_cell(rates, name, above + 1) for name in columns)]
        for tier, rates in tiers
        for above in _lengths(rates)
    ]
    head = ["tier", "input above", *(_HEADS[name] for name in columns)]
    lines = [
        f"{price.model}, from {price.source}, at {_moment(now_ms)}",
        "USD for a million tokens",
        "",
        table(head, rows, bold=bold),
        "",
        *_others(tiers[0][1], priced),
    ]
    return "\n".join(lines)


def _others(rates: Rates, priced: set[TokenClass]) -> Iterator[str]:
    """Yield what else there is to know: classes without a column, and the fee."""
    followers: dict[TokenClass, list[str]] = {}
    without: list[str] = []
    for name in set(_HEADS) - priced:
        followed = _followed(name, priced)
        (without if followed is None else followers.setdefault(followed, [])).append(
            _HEADS[name]
        )
    for followed, names in sorted(followers.items()):
        yield f"charged like {_HEADS[followed]}: {', '.join(sorted(names))}"
    if without:
        yield f"without a price: {', '.join(sorted(without))}"
    if rates.request_picousd:
        yield f"and for each request: {dollars(rates.request_picousd, PICOUSD_PER_USD)}"


def _followed(name: TokenClass, priced: set[TokenClass]) -> TokenClass | None:
    followed = LIKE.get(name)
    while followed is not None and followed not in priced:
        followed = LIKE.get(followed)
    return followed


def _cell(rates: Rates, name: TokenClass, input_tokens: int) -> str:
    rate = rates.of(name)
    return "-" if rate is None else _per_million(rate.at(input_tokens))


def _document(price: ModelPrice, now_ms: int) -> dict[str, object]:
    return {
        "model": price.model,
        "source": price.source,
        "at": _moment(now_ms),
        "unit": "USD for a million tokens",
        "tiers": {
            tier: {
                "request_usd": dollars(rates.request_picousd, PICOUSD_PER_USD),
                "classes": {
                    name.value: _class(rate, own=name in rates.by_class)
                    for name in (*INPUT_CLASSES, *OUTPUT_CLASSES)
                    if (rate := rates.of(name)) is not None
                },
            }
            for tier, rates in _tiers(price, now_ms)
        },
    }


def _class(rate: Rate, *, own: bool) -> dict[str, object]:
    return {
        "price": _per_million(rate.base),
        "own": own,
        "steps": [
            {"input_tokens_above": above, "price": _per_million(higher)}
            for above, higher in rate.steps
        ],
    }


def _tiers(price: ModelPrice, now_ms: int) -> Iterator[tuple[str, Rates]]:
    for tier in price.tiers(now_ms):
        rates = price.rates(now_ms, tier)
        if rates is not None:
            yield tier, rates


def _lengths(rates: Rates) -> Sequence[int]:
    """Return the lengths of input above which a price changes, 0 first."""
    steps = {above for rate in rates.by_class.values() for above, _ in rate.steps}
    return sorted({0, *steps})


def _length(above: int) -> str:
    return f"{above:,}" if above else ""


def _per_million(picousd: int) -> str:
    return dollars(picousd, PICOUSD_PER_USD // TOKENS_PER_MILLION)


def _moment(now_ms: int) -> str:
    return datetime.fromtimestamp(now_ms // 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _moment_ms(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            "must be a date, or a date and time in RFC 3339"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def _is_terminal() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ
