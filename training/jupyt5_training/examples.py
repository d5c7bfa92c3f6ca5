"""Cell-infilling examples: one source and one target a cell, made by the shared formatter."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from jupyt5.infilling import plan_example, render_ids
from jupyt5.model.checkpoint import FormatterSettings
from jupyt5.tokenizer import Tokenizer
from jupyt5_training.arrays import TokenArrays

__all__ = ["Example", "ExampleConfig", "ExampleMaker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleConfig:
    """How targets are cut.

    Attributes:
        formatter: Context cells and budgets.
        prefix_rate: Share of targets cut at a random line, the lines before it shown as prefix.
        suffix_rate: Share of targets whose last lines are shown as suffix.
    """

    formatter: FormatterSettings
    prefix_rate: float = 0.15
    suffix_rate: float = 0.05


@dataclass(frozen=True, slots=True)
class Example:
    """``source_ids`` shape (S,), ``target_ids`` shape (T,); both int64.

    The target ends with ``</s>`` unless it was cut at the longest target.
    """

    source_ids: npt.NDArray[np.int64]
    target_ids: npt.NDArray[np.int64]


class ExampleMaker:
    """Makes examples of one split's cells by index; the same arguments give the same example."""

    def __init__(self, arrays: TokenArrays, tokenizer: Tokenizer, config: ExampleConfig) -> None:
        self._arrays = arrays
        self._tokenizer = tokenizer
        self._config = config
        self._comment_ids = frozenset(
            idx for idx, token in enumerate(tokenizer.tokens) if token.lstrip("Ġĉ").startswith("#")
        )

    def estimate_lengths(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Estimate source and target lengths of all targets, shapes (targets,) each.

        Exact for a target without a prefix; a prefix moves ids from the target to the source.
        """
        settings = self._config.formatter
        offsets = self._arrays.cell_offsets
        targets = self._arrays.targets
        notebook_idx = self._notebook_of(targets)
        first = np.maximum(
            self._arrays.notebook_offsets[notebook_idx], targets - settings.num_context_cells
        )
        last = np.minimum(
            self._arrays.notebook_offsets[notebook_idx + 1],
            targets + 1 + settings.num_following_cells,
        )
        own = offsets[targets + 1] - offsets[targets]
        # One kind a cell, the target's included; <s>, control code, slot, </s>.
        around = offsets[last] - offsets[first] - own + (last - first) + 4
        return (
            np.minimum(around, settings.source_budget_tokens).astype(np.int64),
            np.minimum(own + 1, settings.max_target_tokens).astype(np.int64),
        )

    def is_code_target(self) -> npt.NDArray[np.bool_]:
        """Whether each target is code, shape (targets,)."""
        return self._arrays.is_code[self._arrays.targets].astype(np.bool_)

    def make(self, target_position: int, rng: np.random.Generator) -> Example:
        """Make the example of ``arrays.targets[target_position]``; ``rng`` cuts prefixes."""
        settings = self._config.formatter
        cell_idx = int(self._arrays.targets[target_position])
        notebook_idx = int(self._notebook_of(np.asarray([cell_idx]))[0])
        first = max(
            int(self._arrays.notebook_offsets[notebook_idx]), cell_idx - settings.num_context_cells
        )
        last = min(
            int(self._arrays.notebook_offsets[notebook_idx + 1]),
            cell_idx + 1 + settings.num_following_cells,
        )
        ids = {idx - first: self._arrays.cell(idx).tolist() for idx in range(first, last)}
        kinds = {idx - first: self._arrays.kind(idx) for idx in range(first, last)}
        views = [self._tokenizer.view(kinds[local], ids[local]) for local in range(last - first)]
        target = cell_idx - first
        prefix_lines, suffix_lines = self._cut(
            ids[target], list(views[target].line_ends), kinds[target], rng
        )
        views[target] = replace(views[target], prefix_lines=prefix_lines, suffix_lines=suffix_lines)
        plan = plan_example(
            views,
            target,
            num_context_cells=settings.num_context_cells,
            num_following_cells=settings.num_following_cells,
            source_budget_tokens=settings.source_budget_tokens,
        )
        source = render_ids(plan, ids, kinds, self._tokenizer.special)
        body = ids[target][views[target].prefix_end : views[target].suffix_start]
        whole = [*body, self._tokenizer.special.eos][: settings.max_target_tokens]
        return Example(np.asarray(source, np.int64), np.asarray(whole, np.int64))

    def _cut(
        self,
        ids: list[int],
        line_ends: list[int],
        kind: str,
        rng: np.random.Generator,
    ) -> tuple[int, int]:
        """Choose how many first lines are prefix and how many last lines are suffix."""
        num_lines = len(line_ends)
        draw, position = rng.random(), rng.random()
        prefix = self._count_comment_lines(ids, line_ends) if kind == "code" else 0
        prefix = prefix if prefix < num_lines else 0  # a cell of comments only is its own target
        free = num_lines - prefix
        if free < 2:
            return prefix, 0
        if draw < self._config.prefix_rate:
            return prefix + 1 + int(position * (free - 1)), 0
        if draw < self._config.prefix_rate + self._config.suffix_rate:
            return prefix, 1 + int(position * (free - 1))
        return prefix, 0

    def _count_comment_lines(self, ids: list[int], line_ends: list[int]) -> int:
        """Initial comment lines (the paper's DSP rule); blank lines between them count along."""
        count = 0
        start = 0
        for line, end in enumerate(line_ends):
            content = [idx for idx in ids[start:end] if self._tokenizer.tokens[idx].strip("ĠĉĊč")]
            if content and content[0] not in self._comment_ids:
                break
            if content:
                count = line + 1
            start = end
        return count

    def _notebook_of(self, cell_idxs: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        return np.searchsorted(self._arrays.notebook_offsets, cell_idxs, side="right") - 1
