"""MBPP: short functions from one sentence and three asserts (Austin et al. 2021)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from jupyt5.errors import ProblemSetError
from jupyt5_dsp.problems import Form, ProblemSet, Shown
from jupyt5_dsp.programs import Program, find_file, make_cell, make_program_set, read_rows
from jupyt5_dsp.suites.options import PRESENTATION, Option

__all__ = ["MbppSuite"]

_FILES = ("mbpp.jsonl.gz", "mbpp.jsonl")
_FIELDS = ("task_id", "text", "code", "test_list", "test_setup_code", "challenge_test_list")
# The paper's split, section 2.1.
_EVALUATION_IDS = range(11, 511)
_SHOT_IDS = (2, 3, 4)
_DONE = "[DONE]"


@dataclass(frozen=True, slots=True)
class _Row:
    task_id: int
    text: str
    code: str
    tests: tuple[str, ...]
    setup: str
    challenges: tuple[str, ...]


class MbppSuite:
    """974 functions; the program is the code, the set-up of the tests, and the asserts."""

    name = "mbpp"
    version = "mbpp-v1"
    about = "short functions from one sentence and their asserts"
    licence = "CC BY 4.0"
    home = "https://github.com/google-research/google-research/tree/master/mbpp"
    options = (
        Option(
            name=PRESENTATION,
            default="prompt",
            choices=("prompt", "notebook"),
            about="prompt: the paper's, with three examples; notebook: a Markdown cell above",
        ),
        Option(
            name="ids",
            default="evaluation",
            choices=("evaluation", "all"),
            about="evaluation: task ids 11 to 510; all: 974",
        ),
        Option(
            name="tests",
            default="listed",
            choices=("listed", "challenge"),
            about="listed: the asserts that the model sees; challenge: those that it does not, too",
        ),
    )

    def load(self, path: Path, options: Mapping[str, str]) -> ProblemSet:
        """Read ``mbpp.jsonl``; see ``Suite.load``."""
        file_path = find_file(path, _FILES)
        rows = list(_iter_rows(file_path))
        chosen = [row for row in rows if options["ids"] == "all" or row.task_id in _EVALUATION_IDS]
        shots = [row for row in rows if row.task_id in _SHOT_IDS]
        asks = options[PRESENTATION] == "prompt"
        if asks:
            _check_shots(file_path, shots)
        return make_program_set(
            (
                Program(
                    task_id=f"MBPP/{row.task_id}",
                    form=Form(reference=row.code, suffix="\n"),
                    grading=_make_grading(row, challenges=options["tests"] == "challenge"),
                    shown=_show_prompt(row, shots) if asks else _show_notebook(row),
                )
                for row in chosen
            ),
            stops=(_DONE,),
        )


def _iter_rows(path: Path) -> Iterator[_Row]:
    for line_number, record in read_rows(path, _FIELDS):
        task_id = record["task_id"]
        if not isinstance(task_id, int):
            message = f"{path}, record {line_number}: task_id {task_id!r} is no number."
            raise ProblemSetError(message)
        yield _Row(
            task_id,
            str(record["text"]),
            str(record["code"]),
            _read_texts(record["test_list"]),
            str(record["test_setup_code"]),
            _read_texts(record["challenge_test_list"]),
        )


def _check_shots(path: Path, shots: Sequence[_Row]) -> None:
    missing = [str(idx) for idx in _SHOT_IDS if idx not in {row.task_id for row in shots}]
    if missing:
        message = (
            f"{path} has no task {' and no task '.join(missing)}: the prompt's three examples are "
            f"tasks {', '.join(map(str, _SHOT_IDS))}. Give the whole file, or use --presentation "
            "notebook, which shows none."
        )
        raise ProblemSetError(message)


def _read_texts(value: object) -> tuple[str, ...]:
    return tuple(str(text) for text in cast("list[object]", value if value else ()))


def _make_grading(row: _Row, *, challenges: bool) -> str:
    # After the code: the set-up of one problem uses a class that its code defines.
    tests = [*row.tests, *(row.challenges if challenges else ())]
    return "\n".join([*([row.setup] if row.setup else []), *tests])


def _show_prompt(row: _Row, shots: Sequence[_Row]) -> Shown:
    answered = [f"{_ask(shot)}{_unify(shot.code)}\n{_DONE}\n" for shot in shots if shot != row]
    prompt = "\n".join([*answered, _ask(row)])
    return Shown(cells=(make_cell("code", prompt),), target_idx=0, prefix=prompt)


def _ask(row: _Row) -> str:
    tests = "\n".join(row.tests)
    return (
        f"You are an expert Python programmer, and here is your task: {row.text} "
        f"Your code should pass these tests:\n\n{tests}\n[BEGIN]\n"
    )


def _show_notebook(row: _Row) -> Shown:
    tests = "\n".join(row.tests)
    words = f"{row.text} Your code should pass these tests:\n\n```python\n{tests}\n```"
    return Shown(cells=(make_cell("markdown", words), make_cell("code", "")), target_idx=1)


def _unify(code: str) -> str:
    return code.replace("\r\n", "\n")
