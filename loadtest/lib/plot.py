"""Draw grouped bars with whiskers as an SVG, by hand. Pure."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape

from loadtest.lib.stats import Spread

WIDTH = 860
LEFT = 24
LABEL_W = 150
PLOT_W = 580
BAR_H = 17
BAR_GAP = 5
TITLE_H = 26
GROUP_GAP = 20
HEAD_H = 92
FOOT_H = 48
COLOURS = {
    "ours": "#1f6feb",
    "rust": "#c2571a",
    "go": "#1a9e96",
    "pypi": "#9a7d0a",
    "faktory": "#c2571a",
    "broker": "#1f6feb",
    "on_broker": "#1a9e96",
    "api": "#1f6feb",
    "fastapi": "#c2571a",
    "asgi": "#1a9e96",
    "pushb": "#9a7d0a",
    "scrapy": "#c2571a",
    "parallel": "#1f6feb",
    "sequential": "#c2571a",
    "with": "#1f6feb",
    "without": "#1a9e96",
    "colly": "#1a9e96",
    "postgres": "#1a9e96",
    "postgres_away": "#9a7d0a",
    "bare": "#c2571a",
    "plain": "#c2571a",
    "checked": "#1a9e96",
    "polite": "#1f6feb",
    "impolite": "#c2571a",
}
INK, FAINT, GRID = "#1f2328", "#59636e", "#e4e7eb"
STYLE = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"


@dataclass(frozen=True, slots=True)
class Bar:
    key: str
    label: str
    value: float
    low: float
    high: float
    digits: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    title: str
    bars: list[Bar]


def bars_of(
    titles: Mapping[str, str], found: Callable[[str], Spread | None], digits: int = 0
) -> list[Bar]:
    """A bar for each side of which something was found, by its key."""
    spreads = {key: found(key) for key in titles}
    return [
        Bar(key, titles[key], spread.median, spread.low, spread.high, digits)
        for key, spread in spreads.items()
        if spread
    ]


def draw(groups: list[Group], title: str, *, is_one_scale: bool = True) -> str:
    """Return the picture; each bar shows its value.

    All groups share one linear scale, or each has its own, where they show different things.
    """
    ends = [max((bar.high for bar in group.bars), default=1.0) for group in groups]
    step = _tick_step(max(ends, default=1.0))
    scale_end = math.ceil(max(ends, default=1.0) / step) * step
    height = HEAD_H + FOOT_H + sum(_group_height(group) for group in groups)
    note = "Median of the rounds; the whisker is the range."
    if not is_one_scale:
        note += " Every group has a scale of its own."
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' "
        f"width='{WIDTH}' height='{height}' {STYLE}>",
        f"<rect width='{WIDTH}' height='{height}' rx='8' fill='#ffffff'/>",
        _text(LEFT, 30, title, 17, INK, weight=600),
        _text(LEFT, 50, note, 12, FAINT),
        *_legend(groups),
    ]
    if is_one_scale:
        parts += _axis(scale_end, step, height - FOOT_H)
    y = float(HEAD_H)
    for group, end in zip(groups, ends, strict=True):
        parts += _group(group, y, scale_end if is_one_scale else end or 1.0)
        y += _group_height(group)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(groups: list[Group]) -> list[str]:
    labels = {bar.key: bar.label for group in groups for bar in group.bars}
    parts, x = [], float(LEFT)
    for key in [key for key in COLOURS if key in labels]:
        parts.append(f"<rect x='{x}' y='64' width='12' height='12' rx='2' fill='{COLOURS[key]}'/>")
        parts.append(_text(x + 18, 74, labels[key], 12, INK))
        x += 150
    return parts


def _group_height(group: Group) -> int:
    return TITLE_H + max(len(group.bars), 1) * (BAR_H + BAR_GAP) + GROUP_GAP


def _tick_step(top: float) -> float:
    """Return 1, 2 or 5 times a power of ten that gives four to nine ticks."""
    power = 10.0 ** math.floor(math.log10(max(top, 1) / 4))
    return next(power * factor for factor in (1, 2, 5, 10) if top / (power * factor) <= 8)


def _axis(end: float, step: float, bottom: int) -> list[str]:
    parts = []
    for index in range(round(end / step) + 1):
        x = LEFT + LABEL_W + PLOT_W * index * step / end
        parts.append(f"<path d='M{x:.1f} {HEAD_H} V{bottom}' stroke='{GRID}'/>")
        parts.append(_text(x, bottom + 18, f"{index * step:,.0f}", 11, FAINT, anchor="middle"))
    return parts


def _group(group: Group, y: float, scale_end: float) -> list[str]:
    # White behind the title, so that no grid line runs through it.
    parts = [
        f"<rect x='{LEFT}' y='{y:.1f}' width='{WIDTH - 2 * LEFT}' height='{TITLE_H}' "
        "fill='#ffffff'/>",
        _text(LEFT, y + 17, group.title, 13, INK, weight=600),
    ]
    y += TITLE_H
    if not group.bars:
        parts.append(_text(LEFT + 8, y + 13, "no run counted", 12, FAINT))
    for bar in group.bars:
        parts += _bar(bar, y, PLOT_W / scale_end)
        y += BAR_H + BAR_GAP
    return parts


def _bar(bar: Bar, y: float, per_unit: float) -> list[str]:
    x0, middle = LEFT + LABEL_W, y + BAR_H / 2
    low, high = x0 + bar.low * per_unit, x0 + bar.high * per_unit
    length = max(bar.value * per_unit, 1.5)
    whisker = (
        f"M{low:.1f} {middle:.1f} H{high:.1f} "
        f"M{low:.1f} {middle - 4:.1f} v8 M{high:.1f} {middle - 4:.1f} v8"
    )
    return [
        _text(x0 - 10, middle + 4, bar.label, 12, INK, anchor="end"),
        f"<rect x='{x0}' y='{y:.1f}' width='{length:.1f}' height='{BAR_H}' rx='2' "
        f"fill='{COLOURS.get(bar.key, FAINT)}'/>",
        f"<path d='{whisker}' stroke='{INK}' stroke-opacity='0.65' fill='none'/>",
        _text(max(high, x0 + length) + 8, middle + 4, f"{bar.value:,.{bar.digits}f}", 12, INK),
    ]


def _text(
    x: float, y: float, text: str, size: int, colour: str, anchor: str = "start", weight: int = 400
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' fill='{colour}' "
        f"text-anchor='{anchor}' font-weight='{weight}'>{escape(text)}</text>"
    )
