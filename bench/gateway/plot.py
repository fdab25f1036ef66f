"""
The picture: an SVG, written by hand, of three panels of bars.

Throughput in ratio to Envoy alone, with the range of rounds; CPU of a JSON exchange and
of a stream, by who spends it. Nothing in it is scripted, so that it shows in any page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from bench.gateway.spread import Spread
from bench.gateway.summary import Summary

ROLES = (
    ("cpu_us_envoy", "Envoy", "#9aa5b1"),
    ("cpu_us_processor", "processor", "#2f6fdb"),
    ("cpu_us_proxy", "LiteLLM", "#d9622b"),
    ("cpu_us_ledger", "Redis", "#7fb77e"),
)
_INK, _FAINT = "#1f2933", "#d5dbe1"
_LABELS_PX, _PANEL_PX, _GAP_PX = 300, 260, 46
_TOP_PX, _ROW_PX, _BAR_PX = 86, 24, 14
_TICKS = 4


@dataclass(frozen=True, slots=True)
class Bar:
    """
    Attributes:
        parts: Lengths, in the panel's unit, and colours.
        text: Behind it.
        low: Of the range; *high*: likewise. None: there is none.
    """

    parts: Sequence[tuple[float, str]]
    text: str
    low: float | None = None
    high: float | None = None

    @property
    def length(self) -> float:
        """Of all parts."""
        return sum(length for length, _ in self.parts)


@dataclass(frozen=True, slots=True)
class Panel:
    """*bars* by variant, under a *title*; *most* is how far the axis goes."""

    title: str
    bars: dict[str, Bar]
    most: float


def plot(summary: Summary, caption: str) -> str:
    """Return the picture of *summary*; *caption* says of what machine and when."""
    panels = (_throughput(summary), *_cpu_panels(summary))
    rows = [name for name in summary if any(name in panel.bars for panel in panels)]
    width = _LABELS_PX + len(panels) * (_PANEL_PX + _GAP_PX)
    height = _TOP_PX + _ROW_PX * len(rows) + 52
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="12">'
    )
    lines = [
        head,
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(12, 24, "What a gateway costs", size=16, weight="bold"),
        *_legend(),
        *(
            _text(_LABELS_PX - 10, _middle(place) + 4, name, anchor="end", size=11)
            for place, name in enumerate(rows)
        ),
        *(
            line
            for place, panel in enumerate(panels)
            for line in _panel(panel, _LABELS_PX + place * (_PANEL_PX + _GAP_PX), rows)
        ),
        _text(12, height - 12, caption, size=10, fill="#52606d"),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _throughput(summary: Summary) -> Panel:
    bars = {}
    for name, loads in summary.items():
        ratio = loads.get("json-16", {}).get("ratio_per_second")
        if ratio is not None:
            bars[name] = _ratio_bar(ratio)
    return Panel("JSON requests/s, c=16, % of Envoy alone", bars, 100.0)


def _ratio_bar(ratio: Spread) -> Bar:
    median, low, high = (100 * each for each in (ratio.median, ratio.low, ratio.high))
    return Bar([(median, "#5a7dbf")], f"{median:.1f}", low, high)


def _cpu_panels(summary: Summary) -> Iterator[Panel]:
    for load, title in (
        ("json-16", "CPU of a JSON exchange, ms"),
        ("sse-16-paced", "CPU of a 100-chunk stream, ms"),
    ):
        bars = {}
        for name, loads in summary.items():
            figures = loads.get(load, {})
            parts = [
                (figures[role].median / 1000, colour)
                for role, _, colour in ROLES
                if role in figures
            ]
            if parts:
                total = sum(length for length, _ in parts)
                bars[name] = Bar(parts, f"{total:.2f}")
        # What is far beyond all others would leave them no room: it is cut off.
        lengths = sorted(bar.length for bar in bars.values())
        yield Panel(title, bars, _round_up(_axis(lengths)))


def _axis(lengths: Sequence[float]) -> float:
    if not lengths:
        return 1.0
    second = lengths[-2] if len(lengths) > 1 else lengths[-1]
    return min(lengths[-1], 2 * second) or 1.0


def _round_up(figure: float) -> float:
    step = 10.0 ** (len(str(int(figure))) - 1) if figure >= 1 else 0.1
    return step * -(-figure // step)


def _panel(panel: Panel, left: int, rows: Sequence[str]) -> Iterator[str]:
    bottom = _TOP_PX + _ROW_PX * len(rows)
    yield _text(left, _TOP_PX - 14, panel.title, weight="bold")
    for tick in range(_TICKS + 1):
        x = left + _PANEL_PX * tick / _TICKS
        yield (
            f'<line x1="{x:.1f}" y1="{_TOP_PX}" x2="{x:.1f}" y2="{bottom}" '
            f'stroke="{_FAINT}"/>'
        )
        told = f"{panel.most * tick / _TICKS:g}"
        yield _text(x, bottom + 14, told, anchor="middle", size=10)
    for place, name in enumerate(rows):
        if name in panel.bars:
            yield from _bar(panel, panel.bars[name], left, place)


def _bar(panel: Panel, bar: Bar, left: int, place: int) -> Iterator[str]:
    def at(length: float) -> float:
        return left + _PANEL_PX * min(1.0, length / panel.most)

    top = _middle(place) - _BAR_PX / 2
    reached = 0.0
    for length, colour in bar.parts:
        x, reached = at(reached), reached + length
        yield (
            f'<rect x="{x:.1f}" y="{top:.1f}" width="{max(0.5, at(reached) - x):.1f}" '
            f'height="{_BAR_PX}" fill="{colour}"/>'
        )
    end = at(bar.high if bar.high is not None else reached)
    if bar.low is not None and bar.high is not None:
        y = _middle(place)
        yield (
            f'<line x1="{at(bar.low):.1f}" y1="{y}" x2="{end:.1f}" y2="{y}" '
            f'stroke="{_INK}"/>'
        )
    is_cut = reached > panel.most
    text = f"… {bar.text}" if is_cut else bar.text
    if end + 40 > left + _PANEL_PX + _GAP_PX or is_cut:
        yield _text(end - 4, _middle(place) + 4, text, anchor="end", fill="#ffffff")
    else:
        yield _text(end + 4, _middle(place) + 4, text, size=11)


def _legend() -> Iterator[str]:
    x = 12
    for _, name, colour in ROLES:
        yield f'<rect x="{x}" y="38" width="11" height="11" fill="{colour}"/>'
        yield _text(x + 16, 48, name, size=11)
        x += 30 + 7 * len(name)


def _middle(place: int) -> int:
    return _TOP_PX + _ROW_PX * place + _ROW_PX // 2


def _text(x: float, y: float, text: str, **style: object) -> str:
    names = {"anchor": "text-anchor", "size": "font-size", "weight": "font-weight"}
    told = {"fill": _INK, **style}
    attributes = " ".join(f'{names.get(k, k)}="{v}"' for k, v in told.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{escape(text)}</text>'
