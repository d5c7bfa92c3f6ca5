"""What is taken of a model's answer, where the prompt ends in a header and where it does not."""

from pathlib import Path
from urllib.parse import quote

import pytest

from jupyt5.providers import Sampling, load_provider
from jupyt5_dsp.problems import ProblemSet
from jupyt5_dsp.sample_files import read_samples
from jupyt5_dsp.samples import Generation, generate_samples, make_request, take_completion
from jupyt5_dsp.suites import find_suite, load_suite

from .suite_fixtures import write_humaneval, write_mbpp

GENERATION = Generation(
    num_samples=1,
    num_context_cells=0,
    num_following_cells=0,
    sampling=Sampling(),
    seed=0,
    prompt_tokens=8192,
)
WHOLE = "def add(a: int, b: int) -> int:\n    return np.add(a, b)\n"
WRONG = "def add(a, b):\n    return None\n"
HELPED = "import numpy as np\n\ndef own(a):\n    return a\n\n" + WHOLE


def take(problem_set: ProblemSet, raw: str) -> str:
    problem = problem_set.problems[0]
    request = make_request(problem_set, problem, GENERATION)
    return take_completion(problem_set, problem, request, raw)


def execute(problem_set: ProblemSet, completion: str) -> int:
    names: dict[str, object] = {}
    exec(problem_set.fill(problem_set.problems[0], completion), names)  # noqa: S102
    add = names["add"]
    assert callable(add)
    return int(str(add(2, 3)))


@pytest.mark.parametrize("presentation", ["prompt", "markdown"])
@pytest.mark.parametrize(
    "raw",
    [
        f"```python\nimport numpy as np\n\n{WHOLE}```",
        f"Here it is:\n\n```python\n{HELPED}```\n\nIt adds.\n\n```python\nadd(2, 3)\n```",
        f"# The answer\n```python\n{HELPED}\ndef helper():\n    pass\n```",
        HELPED,
        f"\n\n{HELPED}\ndef test():\n    assert 0\n\ntest()",
        f"{HELPED}\n# Example\n```python\nadd(0, 0)\n```\n",
        "Here is the function:\n\ndef add(a,b):\n    return a + b\n",
        "```python\r\ndef add(a,b):\r\n    return a + b\r\n```",
        '\n    return a + b\n\ndef add(a, b):\n    return "again"\n',
        "\n    return a + b\n\n\ndef main():\n    pass\n```\n\nExample:\n```python\nadd()\n```",
        "\n    return a + b\n\n\n# Test\n```python\nx = 1\n```",
        "```python\n    return a + b\n```",
        "return a + b",
        f"Imports:\n```python\nimport numpy as np\n```\nFunction:\n```python\n{WHOLE}```\n",
        f"```\nimport numpy as np\n```\n```sh\nls\n```\n```\n{WHOLE}```\n```\nadd(2, 3)\n```",
        f"```python\n{WRONG}```\nOops, corrected:\n```python\n{HELPED}```\nThat is it: {WRONG}",
        f"~~~python\n{WRONG}~~~\nOops:\n~~~python\n{HELPED}~~~\n",
        f"add\n```python\n{WRONG}```\nTwo:\n```python\n{HELPED}```\n```python\nadd\n```",
        f"<think>\nA draft:\n```python\n{WRONG}```\n{WRONG}</think>\n\n{HELPED}",
        f"<think>{WRONG}\n</think>\n```python\n{HELPED}```",
        f"So:\n{WRONG}</think>\n```python\n{HELPED}```",
        "<think>\nadd them\n</think>\n\n    return a + b\n",
        f"    return a + b\n```\nWrong would be:\n```python\n{WRONG}```\n",
    ],
)
def test_answers_to_a_header(raw: str, presentation: str, tmp_path: Path) -> None:
    path = write_humaneval(tmp_path)
    problem_set = load_suite(find_suite("humaneval"), path, {"presentation": presentation})
    assert execute(problem_set, take(problem_set, raw)) == 5


def test_an_unfinished_thought_is_no_answer(tmp_path: Path) -> None:
    problem_set = load_suite(find_suite("humaneval"), write_humaneval(tmp_path))
    assert take(problem_set, f"<think>\nPerhaps:\n```python\n{WHOLE}```\n").strip() == ""


def test_what_comes_from_the_future_cannot_stand_below_a_prompt(tmp_path: Path) -> None:
    problem_set = load_suite(find_suite("humaneval"), write_humaneval(tmp_path))
    raw = f"```python\nfrom __future__ import annotations  # first\n{HELPED}```"
    assert execute(problem_set, take(problem_set, raw)) == 5
    other = raw.replace("annotations", "division")
    assert take(problem_set, other).startswith("\nfrom __future__")


@pytest.mark.parametrize("presentation", ["prompt", "notebook"])
@pytest.mark.parametrize(
    ("raw", "taken"),
    [
        ("```python\nimport os\n```\nThen:\n```python\nx = 1\n```\n", "import os\nx = 1"),
        (
            "```\nimport os\n```\n```\nimport re\n```\n```\nx = 1\n```",
            "import os\nimport re\nx = 1",
        ),
        ("```python\nx = 1\n```\nOops:\n```python\nx = 2\n```\n", "x = 1"),
        ("```python\nimport os\n```\nThat is all.", "import os"),
        ("<think>\n```python\nx = 1\n```\n</think>\n```python\nx = 2\n```", "x = 2"),
    ],
)
def test_without_a_header_the_first_fence_with_more_than_imports_counts(
    raw: str, taken: str, presentation: str, tmp_path: Path
) -> None:
    path = write_mbpp(tmp_path)
    problem_set = load_suite(find_suite("mbpp"), path, {"presentation": presentation})
    assert take(problem_set, raw).strip() == taken


@pytest.mark.parametrize("presentation", ["prompt", "notebook"])
@pytest.mark.parametrize(
    "raw",
    [
        "def add(a,b):\n    return a + b\n[DONE]\n\nHere is another:\n"
        "```python\ndef other():\n    pass\n```\n",
        "```python\ndef add(a,b):\n    return a + b\n[DONE]\n```\n",
        "```python\ndef add(a,b):\n    return a + b\n```\n[DONE]\n\n```python\nx = 1\n```",
        "Sure.\n```python\ndef add(a,b):\n    return a + b\n```\n",
    ],
)
def test_answers_that_go_on_after_the_end_of_an_answer(
    raw: str, presentation: str, tmp_path: Path
) -> None:
    problem_set = load_suite(
        find_suite("mbpp"), write_mbpp(tmp_path), {"presentation": presentation}
    )
    taken = take(problem_set, raw)
    assert taken.rstrip() == "def add(a,b):\n    return a + b"
    assert execute(problem_set, taken) == 5


def test_a_run_takes_answers_so(tmp_path: Path) -> None:
    problem_set = load_suite(find_suite("humaneval"), write_humaneval(tmp_path)).select(1)
    text = quote("import math\n\ndef add(a, b):\n    return a + b\n")
    provider = load_provider(f"fake:text={text}")
    path = tmp_path / "samples.jsonl"
    list(generate_samples(provider, problem_set, GENERATION, path))
    (sample,) = read_samples(path, problem_set)
    assert sample.raw
    assert sample.completion.startswith("\nimport math\n")
    assert execute(problem_set, sample.completion) == 5
