"""Plans in words: prompts for completion models, messages for chat models."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyt5.infilling import measure_cell, measure_target, render_messages, render_prompt
from jupyt5.notebook import Cell
from jupyt5.providers import FillRequest
from jupyt5.providers.texts import count_omitted, estimate_tokens, plan_text


def cell(kind: str, source: str) -> Cell:
    return Cell(None, kind, source)  # type: ignore[arg-type]


CELLS = (
    cell("markdown", "# Sums"),
    cell("code", "import numpy as np\n\nx = 1"),
    cell("markdown", "Write `add`.\n\nIt adds."),
    cell("code", ""),
    cell("code", "assert add(1, 2) == 3"),
)


def count_words(text: str) -> int:
    return len(text.split())


def plan(budget: int = 500, cells: Sequence[Cell] = CELLS, target_idx: int = 3, **fields: object):
    request = FillRequest(cells=tuple(cells), target_idx=target_idx, **fields)  # type: ignore[arg-type]
    return plan_text(request, count_words, budget_tokens=budget)


def test_a_fill_in_the_middle_prompt_is_a_script_around_the_slot() -> None:
    prompt = render_prompt(*plan(prefix="# add\n", suffix="\nprint(add)"), infill=True)
    assert prompt.before == (
        "# %% [markdown]\n# # Sums\n\n# %%\nimport numpy as np\n\nx = 1\n\n"
        "# %% [markdown]\n# Write `add`.\n#\n# It adds.\n\n# %%\n# add\n"
    )
    assert prompt.after == "\nprint(add)\n\n# %%\nassert add(1, 2) == 3"
    assert prompt.stop == ("\n# %%",)


def test_a_causal_model_is_told_before_what_follows() -> None:
    prompt = render_prompt(*plan(prefix="def add(", suffix="\n    return c"))
    assert prompt.after == ""
    assert prompt.before.endswith("\n\n# %%\ndef add(")
    assert prompt.before.index("# assert add(1, 2) == 3") < prompt.before.index("def add(")
    assert "#     return c" in prompt.before


def test_without_following_cells_nothing_is_told_of_them() -> None:
    prompt = render_prompt(*plan(num_following_cells=0))
    assert "assert" not in prompt.before
    assert "followed" not in prompt.before
    assert "assert" not in str(render_messages(*plan(num_following_cells=0)))


@pytest.mark.parametrize("infill", [False, True])
def test_markdown_to_write_is_quoted(infill: bool) -> None:
    prompt = render_prompt(*plan(target_idx=2, prefix="Here "), infill=infill)
    assert prompt.before.endswith('# %% [markdown]\n"""\nHere ')
    assert '\n"""' in prompt.stop
    assert prompt.after.startswith('\n"""') == infill


def test_messages_show_cells_as_markdown_does() -> None:
    system, user = render_messages(*plan(prefix="# add\n"))
    assert (system["role"], user["role"]) == ("system", "user")
    content = user["content"]
    places = [
        content.index(text)
        for text in (
            "# Sums\n\n```python\nimport numpy as np\n\nx = 1\n```\n\nWrite `add`.\n\nIt adds.",
            "```python\nassert add(1, 2) == 3\n```",
            "```python\n# add\n```",
        )
    ]
    assert places == sorted(places)


def test_a_prefilled_answer_holds_the_prefix_and_nothing_else_does() -> None:
    first, second = (
        render_messages(*plan(prefix=prefix), prefill=True) for prefix in ("def a", "def add(x")
    )
    assert second[-1] == {"role": "assistant", "content": "```python\ndef add(x"}
    # What was typed changes the end only: all before it can stay read.
    assert first[:-1] == second[:-1]
    text = render_messages(*plan(target_idx=2, prefix="Here"), prefill=True)[-1]
    assert text["content"] == "Here"


def test_a_short_budget_cuts_the_farthest_and_keeps_lines_whole() -> None:
    cells = [cell("code", f"far = {idx}\n" * 9) for idx in range(3)] + list(CELLS[2:])
    prompt = render_prompt(*plan(40, cells, 4, num_context_cells=4), infill=True)
    assert "Write `add`." in prompt.before
    assert prompt.after.endswith("assert add(1, 2) == 3")
    assert "far = 0" not in prompt.before
    assert all(
        line in {"", "far = 2", "far = 1"} or line.startswith("#")
        for line in prompt.before.split("\n")
    )


texts = st.text(st.characters(codec="utf-8"), max_size=40)


@given(texts, st.integers(0, 50), st.integers(0, 50))
def test_cuts_of_a_cell_are_parts_of_its_text(source: str, start: int, end: int) -> None:
    measured = measure_cell("code", source, estimate_tokens)
    assert "".join(measured.lines) == source
    total = measured.view.num_tokens
    assert measured.cut(0, total) == source
    start, end = sorted((min(start, total), min(end, total)))
    assert measured.cut(0, start) + measured.cut(start, end) + measured.cut(end, total) == source


@given(texts, texts)
def test_a_target_keeps_prefix_and_suffix_apart(prefix: str, suffix: str) -> None:
    measured = measure_target("code", prefix, suffix, estimate_tokens)
    view = measured.view
    assert measured.cut(0, view.prefix_end) == prefix
    assert measured.cut(view.suffix_start, view.num_tokens) == suffix


@given(st.integers(5, 80), st.text("a b\n", max_size=60), st.text("a b\n", max_size=60))
def test_what_has_no_room_is_counted(budget: int, prefix: str, suffix: str) -> None:
    request = FillRequest(cells=CELLS, target_idx=3, prefix=prefix, suffix=suffix)
    plan, texts = plan_text(request, count_words, budget_tokens=budget)
    shown = sum(segment.end - segment.start for segment in plan)
    around = sum(text.view.num_tokens for text in texts.values())
    assert count_omitted(request, count_words, budget_tokens=budget) == around - shown
    assert count_omitted(request, count_words, budget_tokens=500) == 0
