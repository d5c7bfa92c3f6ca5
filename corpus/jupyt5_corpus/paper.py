"""What the JuPyT5 paper says about its own corpus, section "Pretraining dataset".

Chandel, Clement, Serrato, Sundaresan: "Training and Evaluating a Jupyter Notebook Data Science
Assistant" (2022). The numbers are the paper's own, as rounded there; tokens are those of the PyMT5
tokenizer. The paper gives no number for what is not here.
"""

from collections.abc import Mapping

__all__ = ["PAPER_FIGURES"]

_MILLION = 1_000_000

PAPER_FIGURES: Mapping[str, int] = {
    "num_repositories_in": 1_970_000,
    "num_notebooks": 9_060_000,
    "num_unique_notebooks": 7_240_000,
    "num_cells": 221 * _MILLION,
    "num_code_cells": 153 * _MILLION,
    "num_markdown_cells": 67 * _MILLION,
    "num_tokens": 27_200 * _MILLION,
    "num_code_tokens": 16_900 * _MILLION,
    "num_markdown_tokens": 10_300 * _MILLION,
    "num_focused_notebooks": 4_100_000,
    "num_focused_tokens": 15_700 * _MILLION,
}
"""Figure by name, as in ``CorpusStats``."""
