"""What is sent, as providers show it: all of it, and nothing is generated for it."""

from __future__ import annotations

import pytest

from jupyt5.notebook import Cell
from jupyt5.providers import FillRequest, Sampling, load_provider
from jupyt5.providers.openai import OpenAISettings, load_openai_provider

REQUEST = FillRequest(
    cells=(
        Cell(None, "code", "import math"),
        Cell(None, "markdown", "Compute the area."),
        Cell(None, "code", ""),
        Cell(None, "code", "assert area > 3"),
    ),
    target_idx=2,
    prefix="# the area\narea =",
)
BASE_URL = "http://127.0.0.1:9/v1"  # nobody listens there


def openai(style: str) -> OpenAISettings:
    return OpenAISettings(base_url=BASE_URL, key="sk-secret-0123456789")


@pytest.mark.parametrize("style", ["", "#fim"])
def test_openai_shows_the_words_and_no_key(style: str) -> None:
    provider = load_openai_provider(f"m@{BASE_URL}{style}", openai(style))
    shown = provider.preview(REQUEST, Sampling())
    for text in ("import math", "Compute the area.", "# the area", "assert area > 3"):
        assert text in shown.text
    assert "sk-secret" not in shown.text
    assert shown.num_tokens > 20


def test_the_bundled_model_shows_its_marks_and_what_is_forced() -> None:
    shown = load_provider("jupyt5:nano").preview(REQUEST, Sampling())
    assert shown.text.startswith("<s>\n<code>\n<code>\nimport math\n<markdown>\n")
    before, after = shown.text.split("\n<mask>\n")
    assert before.index("import math") < before.index("Compute the area.")
    assert before.endswith("# the area")
    assert "assert area > 3" in after
    assert shown.text.endswith("→ area =")
    assert shown.num_tokens > 20
