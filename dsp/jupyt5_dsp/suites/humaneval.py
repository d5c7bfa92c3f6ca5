"""HumanEval: bodies of functions from signature and docstring (Chen et al. 2021)."""

import ast
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path

from jupyt5.errors import ProblemSetError
from jupyt5_dsp.problems import Form, ProblemSet, Shown
from jupyt5_dsp.programs import Program, find_file, make_cell, make_program_set, read_rows
from jupyt5_dsp.suites.options import PRESENTATION, Option

__all__ = ["HumanEvalSuite"]

_FILES = ("HumanEval.jsonl.gz", "HumanEval.jsonl")
_FIELDS = ("task_id", "prompt", "entry_point", "canonical_solution", "test")
# Where the Codex paper ends a sample (section 3.2).
_STOPS = ("\nclass", "\ndef", "\n#", "\nif", "\nprint")


class HumanEvalSuite:
    """164 functions; the program is prompt, completion, test and one call, as in its harness."""

    name = "humaneval"
    version = "humaneval-v1"
    about = "bodies of 164 functions from signature and docstring"
    licence = "MIT"
    home = "https://github.com/openai/human-eval"
    options = (
        Option(
            name=PRESENTATION,
            default="prompt",
            choices=("prompt", "markdown"),
            about="prompt: as published; markdown: the docstring in a Markdown cell above",
        ),
    )

    def load(self, path: Path, options: Mapping[str, str]) -> ProblemSet:
        """Read ``HumanEval.jsonl``; see ``Suite.load``."""
        file_path = find_file(path, _FILES)
        programs = _iter_programs(file_path, as_markdown=options[PRESENTATION] == "markdown")
        return make_program_set(programs, stops=_STOPS)


def _iter_programs(path: Path, *, as_markdown: bool) -> Iterator[Program]:
    for line_number, record in read_rows(path, _FIELDS):
        fields = {name: str(record[name]) for name in _FIELDS}
        prompt, entry_point = fields["prompt"], fields["entry_point"]
        try:
            show = _show_markdown if as_markdown else _show_prompt
            shown = show(prompt, entry_point)
        except (SyntaxError, ValueError) as exc:
            message = f"{path}, record {line_number}: the prompt cannot be read: {exc}."
            raise ProblemSetError(message) from exc
        # What follows a completion in the public harness: a line break, then the test.
        suffix = "\n\n" if fields["test"].startswith("\n") else "\n"
        yield Program(
            task_id=fields["task_id"],
            form=Form(reference=fields["canonical_solution"], prefix=prompt, suffix=suffix),
            grading=f"{fields['test']}\ncheck({entry_point})",
            shown=shown,
        )


def _show_prompt(prompt: str, entry_point: str) -> Shown:
    # Without its last line break: tokenizers join one with the indentation that follows it, and
    # a model that is given the line break alone ends its answer there.
    prefix = prompt.rstrip("\n")
    cells = (make_cell("code", prefix),)
    return Shown(cells=cells, target_idx=0, prefix=prefix, function=entry_point)


def _show_markdown(prompt: str, entry_point: str) -> Shown:
    """Move the docstring into a cell above, in words; what is executed keeps it."""
    text, start, end = _find_docstring(prompt, entry_point)
    lines = prompt.splitlines(keepends=True)
    prefix = "".join([*lines[: start - 1], *lines[end:]]).strip("\n")
    cells = (make_cell("markdown", inspect.cleandoc(text)), make_cell("code", prefix))
    return Shown(cells=cells, target_idx=1, prefix=prefix, function=entry_point)


def _find_docstring(prompt: str, entry_point: str) -> tuple[str, int, int]:
    """Return the docstring of the function asked for, and its first and last line, from 1.

    In one published problem an import stands before it.
    """
    for function in ast.parse(prompt).body:
        if isinstance(function, ast.FunctionDef) and function.name == entry_point:
            for node in function.body:
                match node:
                    case ast.Expr(value=ast.Constant(value=str(text)) as constant):
                        return text, constant.lineno, constant.end_lineno or constant.lineno
                    case _:
                        continue
    message = f"there is no docstring in {entry_point}"
    raise ValueError(message)
