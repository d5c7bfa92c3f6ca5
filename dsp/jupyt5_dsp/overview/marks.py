"""One mark for each run: a colour and a shape that go with its provider on the whole page."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import escape

from jupyt5_dsp.overview.rows import RunRow

__all__ = ["Mark", "choose_marks", "draw_mark"]

_NUM_COLOURS = 8
# Around (0, 0). Six shapes and eight colours: 24 marks before one comes again.
_SHAPES = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
    "M-4 -4h8v8h-8z",
    "M0 -5L5 4H-5z",
    "M0 -5.5L5.5 0L0 5.5L-5.5 0z",
    "M0 5L-5 -4H5z",
    "M-1.6 -5h3.2v3.4h3.4v3.2h-3.4v3.4h-3.2v-3.4h-3.4v-3.2h3.4z",
)
_NUM_DASHES = 4


@dataclass(frozen=True, slots=True)
class Mark:
    """Number of a mark."""

    idx: int

    @property
    def colour(self) -> str:
        """Class of its colour in the style sheet."""
        return f"s{self.idx % _NUM_COLOURS}"

    @property
    def dash(self) -> str:
        """Class of its line in the style sheet."""
        return f"d{self.idx % _NUM_DASHES}"

    @property
    def shape(self) -> str:
        """Path data around (0, 0)."""
        return _SHAPES[self.idx % len(_SHAPES)]


def choose_marks(runs: Sequence[RunRow]) -> dict[str, Mark]:
    """Return a mark for each run by its name.

    A provider's first run over each suite has the same mark everywhere, so has its second one.
    """
    seen: Counter[tuple[str, str]] = Counter()
    series: dict[str, tuple[str, int]] = {}
    for run in runs:
        key = (run.suite_version, run.provider)
        series[run.run] = (run.provider, seen[key])
        seen[key] += 1
    marks = {one: Mark(idx) for idx, one in enumerate(sorted(set(series.values())))}
    return {name: marks[one] for name, one in series.items()}


def draw_mark(
    mark: Mark, at: tuple[float, float], *, title: str, style: str = "mark", size: float = 1.0
) -> str:
    """Return a mark at (x, y) that says ``title`` when pointed at."""
    moved = f"translate({at[0]:.1f} {at[1]:.1f})" + ("" if size == 1.0 else f" scale({size})")
    return (
        f'<path class="{style} {mark.colour}" d="{mark.shape}" transform="{moved}">'
        f"<title>{escape(title)}</title></path>"
    )
