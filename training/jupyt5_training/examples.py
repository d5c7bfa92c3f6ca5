"""Cell-infilling examples: one source and one target a cell, made by the shared formatter.

Every random draw of an example is a number of its own of a counter-based generator: it depends on
(seed, epoch, position) alone, so batches can be planned from exact lengths and made in any order,
anywhere.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from jupyt5.infilling import plan_example, render_ids
from jupyt5.model.checkpoint import FormatterSettings
from jupyt5.tokenizer import Tokenizer
from jupyt5_training.arrays import TokenArrays
from jupyt5_training.lengths import Cuts, LengthPlanner, TokenTables, cut_lines

__all__ = ["CONTEXT_DRAWS", "Example", "ExampleConfig", "ExampleMaker"]

CONTEXT_DRAWS = ("fixed", "random")

# Cells of these begin a grading cell's checks: `assert x`, `np.testing.assert_allclose`.
_CHECKS = ("assert", " assert", ".assert")
_SCAN_TOKENS = 16_000_000
# Philox gives four 64-bit numbers a count: cut, place, context cells, following cells.
_DRAWS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleConfig:
    """How targets are cut, and what is shown with them.

    Attributes:
        formatter: Context cells and budgets.
        prefix_rate: Share of targets cut at a random line, the lines before it shown as prefix.
        suffix_rate: Share of targets whose last lines are shown as suffix.
        context_draw: ``fixed``: the formatter's numbers of cells; ``random``: 1 to
            ``num_context_cells`` with equal chance, so that one model serves every number.
        following_rate: Share of the examples that show the following cells; with ``random`` only.
        test_target_weight: How often a code target whose following cell holds an assert is seen
            in an epoch, as a multiple of other targets.
    """

    formatter: FormatterSettings
    prefix_rate: float = 0.15
    suffix_rate: float = 0.05
    context_draw: str = "fixed"
    following_rate: float = 0.5
    test_target_weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Example:
    """``source_ids`` shape (S,), ``target_ids`` shape (T,); both int64.

    The target ends with ``</s>`` unless it was cut at the longest target.
    """

    source_ids: npt.NDArray[np.int64]
    target_ids: npt.NDArray[np.int64]


class ExampleMaker:
    """Makes examples of one split's cells by position; equal arguments give equal examples.

    Position ``p`` is target ``p % num_targets``; higher ones are further copies of a target in
    the same epoch, with draws of their own.
    """

    def __init__(self, arrays: TokenArrays, tokenizer: Tokenizer, config: ExampleConfig) -> None:
        self._arrays = arrays
        self._tokenizer = tokenizer
        self._config = config
        self._tables = TokenTables(tokenizer)
        self._planner = LengthPlanner(arrays, self._tables)

    @property
    def arrays(self) -> TokenArrays:
        """The split's arrays."""
        return self._arrays

    @property
    def config(self) -> ExampleConfig:
        """The settings."""
        return self._config

    @property
    def num_targets(self) -> int:
        """Targets of the split."""
        return len(self._arrays.targets)

    def is_code_target(self) -> npt.NDArray[np.bool_]:
        """Whether each target is code, shape (targets,)."""
        return self._arrays.kinds[self._arrays.targets] == 1

    def target_weights(self, markdown_rate: float) -> npt.NDArray[np.float64]:
        """Return how often each target is seen in an epoch on average, shape (targets,).

        Args:
            markdown_rate: Of Markdown targets.
        """
        targets = np.asarray(self._arrays.targets, np.int64)
        weights = np.where(self._arrays.kinds[targets] == 0, markdown_rate, 1.0)
        if self._config.test_target_weight != 1.0:
            weights[self._has_test_after(targets)] *= self._config.test_target_weight
        return weights

    def lengths(
        self, positions: npt.NDArray[np.int64], *, seed: int, epoch: int
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Return the exact source and target lengths of examples, shape (positions,) each."""
        formatter = self._config.formatter
        copies, target_idx = np.divmod(positions, max(1, self.num_targets))
        order = np.argsort(target_idx, kind="stable")
        cells = np.asarray(self._arrays.targets[target_idx[order]], np.int64)
        lengths = np.zeros((2, len(positions)), np.int32)
        for part in self._planner.chunks(cells):
            chosen = order[part]
            draws = self._draw_many(copies[chosen], target_idx[chosen], seed, epoch)
            lengths[:, chosen] = self._planner.measure(
                cells[part],
                self._cuts(draws),
                (self._config.prefix_rate, self._config.suffix_rate),
                source_budget_tokens=formatter.source_budget_tokens,
                max_target_tokens=formatter.max_target_tokens,
            )
        return lengths[0], lengths[1]

    def make(self, position: int, *, seed: int, epoch: int) -> Example:
        """Make the example of a position in an epoch."""
        cuts = self._cuts(_draw(seed, epoch, position, 1))
        num_context, num_following = int(cuts.num_context[0]), int(cuts.num_following[0])
        settings = self._config.formatter
        cell_idx = int(self._arrays.targets[position % self.num_targets])
        borders = self._arrays.notebook_offsets
        notebook_idx = int(np.searchsorted(borders, cell_idx, side="right")) - 1
        first = max(int(borders[notebook_idx]), cell_idx - num_context)
        last = min(int(borders[notebook_idx + 1]), cell_idx + 1 + num_following)
        ids = {idx - first: self._arrays.cell(idx).tolist() for idx in range(first, last)}
        kinds = {idx - first: self._arrays.kind(idx) for idx in range(first, last)}
        views = [self._tokenizer.view(kinds[local], ids[local]) for local in range(last - first)]
        target = cell_idx - first
        prefix, suffix = self._cut(ids[target], views[target].line_ends, kinds[target], cuts)
        views[target] = replace(views[target], prefix_lines=prefix, suffix_lines=suffix)
        plan = plan_example(
            views,
            target,
            num_context_cells=num_context,
            num_following_cells=num_following,
            source_budget_tokens=settings.source_budget_tokens,
        )
        source = render_ids(plan, ids, kinds, self._tokenizer.special)
        body = ids[target][views[target].prefix_end : views[target].suffix_start]
        whole = [*body, self._tokenizer.special.eos][: settings.max_target_tokens]
        return Example(np.asarray(source, np.int64), np.asarray(whole, np.int64))

    def _cuts(self, draws: npt.NDArray[np.float64]) -> Cuts:
        formatter = self._config.formatter
        num_context = np.full(len(draws), formatter.num_context_cells)
        num_following = np.full(len(draws), formatter.num_following_cells)
        if self._config.context_draw == "random":
            most = formatter.num_context_cells
            num_context = np.minimum(1 + (draws[:, 2] * most).astype(np.int64), most)
            num_following[draws[:, 3] >= self._config.following_rate] = 0
        return Cuts(draws[:, 0], draws[:, 1], num_context, num_following)

    def _draw_many(
        self,
        copies: npt.NDArray[np.int64],
        target_idx: npt.NDArray[np.int64],
        seed: int,
        epoch: int,
    ) -> npt.NDArray[np.float64]:
        """Draws of neighbouring targets, one run of the generator for each copy."""
        first, count = int(target_idx[0]), int(target_idx[-1] - target_idx[0]) + 1
        draws = np.empty((len(copies), _DRAWS))
        for copy in np.unique(copies):
            chosen = copies == copy
            run = _draw(seed, epoch, first + int(copy) * self.num_targets, count)
            draws[chosen] = run[target_idx[chosen] - first]
        return draws

    def _cut(
        self, ids: list[int], line_ends: npt.ArrayLike, kind: str, cuts: Cuts
    ) -> tuple[int, int]:
        """Choose how many first lines are prefix and how many last lines are suffix."""
        ends = np.asarray(line_ends)
        num_comment = self._count_comment_lines(ids, ends) if kind == "code" else 0
        prefix, suffix = cut_lines(
            np.asarray([len(ends)]),
            np.asarray([num_comment]),
            cuts,
            self._config.prefix_rate,
            self._config.suffix_rate,
        )
        return int(prefix[0]), int(suffix[0])

    def _count_comment_lines(self, ids: list[int], line_ends: npt.NDArray[np.integer]) -> int:
        """Initial comment lines; blank lines between them count along."""
        count = 0
        start = 0
        for line, end in enumerate(line_ends):
            content = [idx for idx in ids[start:end] if self._tables.has_text[idx]]
            if content and not self._tables.is_comment[content[0]]:
                break
            if content:
                count = line + 1
            start = int(end)
        return count

    def _has_test_after(self, targets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        arrays = self._arrays
        is_code = arrays.kinds == 1
        has_test = self._find_checks() & is_code
        is_last = np.zeros(len(is_code) + 1, np.bool_)
        is_last[arrays.notebook_offsets[1:] - 1] = True
        after = np.append(has_test[1:], False) & ~is_last[:-1]
        return is_code[targets] & after[targets]

    def _find_checks(self) -> npt.NDArray[np.bool_]:
        """Whether each cell holds an assert, shape (cells,), told from its ids."""
        arrays = self._arrays
        patterns = [self._tokenizer.encode(text) for text in _CHECKS]
        longest = max(len(pattern) for pattern in patterns)
        found = np.zeros(len(arrays.kinds), np.bool_)
        for start in range(0, len(arrays.tokens), _SCAN_TOKENS):
            tokens = np.asarray(arrays.tokens[start : start + _SCAN_TOKENS + longest - 1])
            for pattern in patterns:
                at = np.flatnonzero(tokens == pattern[0])
                for offset, token in enumerate(pattern[1:], start=1):
                    at = at[at + offset < len(tokens)]
                    at = at[tokens[at + offset] == token]
                found[np.searchsorted(arrays.cell_offsets, start + at, side="right") - 1] = True
        return found


def _draw(seed: int, epoch: int, first: int, count: int) -> npt.NDArray[np.float64]:
    """Return the draws of ``count`` positions from ``first`` on, in [0, 1), shape (count, 4)."""
    key = np.asarray([seed, epoch], np.uint64)
    raw = np.random.Philox(key=key, counter=first).random_raw(count * _DRAWS)
    mantissa = (raw >> np.uint64(11)).astype(np.float64)
    return mantissa.reshape(count, _DRAWS) * 2.0**-53
