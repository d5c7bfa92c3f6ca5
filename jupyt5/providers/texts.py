"""From a request to a plan over texts, for models whose tokenizer is not ours."""

from jupyt5.infilling import (
    CellText,
    Segment,
    count_left_out,
    measure_cell,
    measure_target,
    plan_example,
    select_neighbours,
)
from jupyt5.infilling.texts import CountTokens
from jupyt5.providers.base import FillRequest

__all__ = ["count_omitted", "estimate_tokens", "find_window", "plan_text"]

# Bytes of source a token of a common code model's tokenizer; stack-independent rule of thumb,
# the same as in the corpus' `num_tokens_estimate`.
_BYTES_PER_TOKEN = 3.5


def plan_text(
    request: FillRequest, count_tokens: CountTokens, *, budget_tokens: int
) -> tuple[tuple[Segment, ...], dict[int, CellText]]:
    """Plan a request for a model that is asked in words.

    Args:
        request: What to fill. Its whole prefix stands before the slot, the open line included.
        count_tokens: The model's own count, or ``estimate_tokens``.
        budget_tokens: Tokens of cells in the prompt, about.

    Returns:
        (plan, the cells it names), for ``render_prompt`` and ``render_messages``. Indices are
        those of the window that the plan can reach, not of the notebook.
    """
    window = find_window(request)
    texts = {
        position: measure_target(request.kind, request.prefix, request.suffix, count_tokens)
        if idx == request.target_idx
        else measure_cell(request.cells[idx].kind, request.cells[idx].source, count_tokens)
        for position, idx in enumerate(window)
    }
    plan = plan_example(
        [texts[position].view for position in range(len(window))],
        window.index(request.target_idx),
        num_context_cells=request.num_context_cells,
        num_following_cells=request.num_following_cells,
        source_budget_tokens=budget_tokens,
        skip_blank=request.skip_blank,
    )
    return plan, texts


def count_omitted(request: FillRequest, count_tokens: CountTokens, *, budget_tokens: int) -> int:
    """Return how many tokens of cells ``plan_text`` has no room for."""
    plan, texts = plan_text(request, count_tokens, budget_tokens=budget_tokens)
    return count_left_out(plan, [texts[position].view for position in sorted(texts)])


def find_window(request: FillRequest) -> list[int]:
    """Return the indices of the cells that a plan can reach, so that no other is tokenised."""

    def is_skipped(idx: int) -> bool:
        cell = request.cells[idx]
        return request.skip_blank and (cell.kind == "raw" or not cell.source.strip())

    before, after = select_neighbours(
        len(request.cells),
        request.target_idx,
        num_context_cells=request.num_context_cells,
        num_following_cells=request.num_following_cells,
        is_skipped=is_skipped,
    )
    return sorted((*before, request.target_idx, *after))


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text for a model whose tokenizer is not at hand."""
    return round(len(text.encode("utf-8", "replace")) / _BYTES_PER_TOKEN)
