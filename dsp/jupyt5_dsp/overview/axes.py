"""Axes and frames of the overview's charts."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import escape

__all__ = ["Plot", "choose_ticks", "choose_top", "draw_frame", "draw_text", "make_log_scale"]

Scale = Callable[[float], float]

_TOPS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
_LEAST_TICKS = 2
_MOST_TICKS = 7
_STEPS = (1, 2, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A chart's size and the room around its axes, in units of the drawing.

    ``pad`` keeps marks at the ends of an axis inside.
    """

    width: int
    height: int
    left: int = 46
    right: int = 14
    top: int = 10
    bottom: int = 42
    pad: int = 12

    @property
    def x_ends(self) -> tuple[float, float]:
        """Where the x axis' first and last value lie."""
        return self.left + self.pad, self.width - self.right - self.pad

    def scale_y(self, top: float) -> Scale:
        """Return the scale from 0 to ``top``."""
        low, high = self.height - self.bottom - self.pad, self.top + self.pad
        return lambda value: low + (high - low) * value / top

    def draw_shares(self, y: Scale, top: float) -> str:
        """Return grid lines and labels of shares on the y axis."""
        parts: list[str] = []
        for share in (top * step / 4 for step in range(5)):
            parts.append(
                f'<path class="grid" d="M{self.left} {y(share):.1f}H{self.width - self.right}"/>'
            )
            label = f"{100 * share:g}%"
            parts.append(draw_text(self.left - 6, y(share) + 4, label, anchor="end"))
        return "".join(parts)

    def draw_ticks(self, x: Scale, ticks: Sequence[float], title: str) -> str:
        """Return ticks, labels and title of the x axis."""
        base = self.height - self.bottom
        parts = [f'<path class="axis" d="M{self.left} {base}H{self.width - self.right}"/>']
        for tick in ticks:
            parts.append(f'<path class="axis" d="M{x(tick):.1f} {base}v5"/>')
            parts.append(draw_text(x(tick), base + 18, f"{tick:,.0f}", anchor="middle"))
        middle = (self.left + self.width - self.right) / 2
        parts.append(draw_text(middle, self.height - 5, title, anchor="middle"))
        return "".join(parts)


def choose_top(highest: float) -> float:
    """Return where an axis of shares ends so that ``highest`` is on it."""
    return next(top for top in _TOPS if highest <= top or top == 1.0)


def choose_ticks(low: float, high: float) -> list[float]:
    """Return round numbers from ``low`` to ``high`` for a logarithmic axis.

    Where fewer than two lie between them, the ends themselves are ticks; one, if they are equal.
    """
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in (_STEPS, (1, 3), (1,)):
        ticks = [step * 10.0**exponent for exponent in exponents for step in steps]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= _MOST_TICKS:
            break
    return ticks if len(ticks) >= _LEAST_TICKS else sorted({low, high})


def make_log_scale(ends: tuple[float, float], low: float, high: float) -> Scale:
    """Return the logarithmic scale from ``low`` to ``high``; their middle where they are equal."""
    first, last = ends
    if low == high:
        return lambda _: (first + last) / 2
    return lambda value: first + (last - first) * math.log(value / low) / math.log(high / low)


def draw_text(x: float, y: float, text: str, *, anchor: str = "start", style: str = "") -> str:
    """Return one line of text."""
    kind = f' class="{style}"' if style else ""
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{where}{kind}>{escape(text)}</text>'


def draw_frame(label: str, size: tuple[int, int], body: str) -> str:
    """Return a whole drawing that says what it is."""
    return (
        f'<svg viewBox="0 0 {size[0]} {size[1]}" role="img" aria-label="{escape(label)}">'
        f"<title>{escape(label)}</title>{body}</svg>"
    )
