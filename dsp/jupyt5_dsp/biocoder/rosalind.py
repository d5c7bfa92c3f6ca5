"""Rosalind's problems: a reference module with ``main(file)``, and one stored pair for each.

A solution defines ``main(file)``, which prints the answer, or ``solve(text)``, which returns it.
The reference's own output is the truth, as in the paper; the stored answer is accepted too, since
many problems have several. References that import from their package cannot run without it.
"""

import ast
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from jupyt5.errors import ProblemSetError
from jupyt5_dsp.biocoder.checker import OutputTest
from jupyt5_dsp.biocoder.insertion import Slot
from jupyt5_dsp.biocoder.records import BioProblem
from jupyt5_dsp.jsonl import read_jsonl

__all__ = [
    "RULES_BY_ID",
    "RosalindPair",
    "load_rosalind",
    "make_rosalind_test",
    "read_pairs",
]

_INPUT_NAME = "input.txt"
_MOST_PAIR_BYTES = 16 << 20
_RUN = f'''

if __name__ == "__main__":
    if "main" in globals():
        main("{_INPUT_NAME}")
    else:
        with open("{_INPUT_NAME}") as stream:
            print(solve(stream.read()))
'''

# Their references ask a database on the network, or give up.
_ONLINE = frozenset({"frmt", "gbk", "need"})
# Where rosalind.info accepts more than one text: decimal numbers (within 0.001), lists whose
# lines or words may come in any order. All other ids are compared as texts.
_NUMBERS = """
afrq ba10a ba10b ba10d ba10e ba10f ba10h ba10i ba10j ba10k ba8a ba8b ba8c ba8d conv ebin eval foun
gc iev indc iprb lia mend pdst prob prtm rstr sexl wfmd
"""
_LINES = """
ba1n ba3a ba3c ba3d ba3e ba4b ba9c corr dbru grph mrep perm revp sign suff
"""
_WORDS = """
ba1b ba1e ba1i ba1j ba2a ba4e ba4h
"""
RULES_BY_ID: dict[str, str] = {
    **dict.fromkeys(_NUMBERS.split(), "numbers"),
    **dict.fromkeys(_LINES.split(), "lines"),
    **dict.fromkeys(_WORDS.split(), "words"),
}


@dataclass(frozen=True, slots=True)
class RosalindPair:
    """A stored input and its answer."""

    text: str = field(repr=False)
    answer: str = field(repr=False)


def load_rosalind(path: Path) -> tuple[BioProblem, ...]:
    """Read ``rosalind.jsonl``: ``id``, ``golden``, and what else is known of a problem.

    Raises:
        ProblemSetError: If the file is damaged or has a problem twice; names the record.
    """
    problems: dict[str, BioProblem] = {}
    for number, fields in enumerate(read_jsonl(path), start=1):
        name, golden = fields.get("id"), fields.get("golden")
        if not isinstance(name, str) or not isinstance(golden, str) or name in problems:
            message = (
                f"{path}, record {number}: id and golden must be texts, and each id be there once. "
                "Mend or remove the record."
            )
            raise ProblemSetError(message)
        problems[name] = _make_problem(name, golden, fields)
    if not problems:
        message = f"{path} has no problems in it. Restore the file or choose another."
        raise ProblemSetError(message)
    return tuple(problems.values())


def read_pairs(path: Path) -> dict[str, RosalindPair]:
    """Read ``<id>.in`` and ``<id>.out`` from a tar archive; nothing is unpacked to disk.

    Raises:
        ProblemSetError: If the archive is damaged.
    """
    texts: dict[tuple[str, str], str] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name, _, kind = member.name.rpartition("/")[2].rpartition(".")
                stream = archive.extractfile(member) if member.isfile() else None
                if kind in ("in", "out") and stream and member.size <= _MOST_PAIR_BYTES:
                    texts[name, kind] = stream.read().decode("utf-8", "replace")
    except (OSError, tarfile.TarError, EOFError) as exc:
        message = f"{path} cannot be read as a tar archive: {exc}. Fetch it again."
        raise ProblemSetError(message) from exc
    return {
        name: RosalindPair(texts[name, "in"], texts[name, "out"])
        for name, kind in texts
        if kind == "in" and (name, "out") in texts
    }


def make_rosalind_test(problem: BioProblem, pairs: Mapping[str, RosalindPair]) -> OutputTest | str:
    """Return a problem's test, or why it has none."""
    pair = pairs.get(problem.task_id)
    if pair is None:
        return "no stored input"
    if problem.task_id in _ONLINE:
        return "the reference asks an on-line database"
    needed = sorted(set(_iter_relative_imports(problem.golden)))
    if needed:
        return f"the reference imports from its package: {', '.join(needed)}"
    return OutputTest(
        problem=problem,
        slot=Slot("", _RUN, is_member=False),
        inputs=({},),
        files={_INPUT_NAME: pair.text},
        rule=RULES_BY_ID.get(problem.task_id, "exact"),
        accepted=(pair.answer,) if pair.answer.strip() else (),
    )


def _make_problem(name: str, golden: str, fields: Mapping[str, object]) -> BioProblem:
    title = str(fields.get("title") or name)
    statement = str(fields.get("description") or fields.get("prompt") or "")
    task = (
        f"Rosalind problem {title!r} ({name}). Write main(file): it reads the problem's input "
        "from the path file and prints the answer."
    )
    return BioProblem(
        task_id=name,
        language="python",
        function="main",
        signature="def main(file)",
        golden=golden,
        summary=f"{statement}\n{task}".strip(),
        other_names=("solve",),
        facts={"track": cast("object", fields.get("track")), "title": title},
    )


def _iter_relative_imports(golden: str) -> Iterator[str]:
    try:
        nodes: Sequence[ast.AST] = list(ast.walk(ast.parse(golden)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            name = "." * node.level + (node.module or "")
            if node.level or name.partition(".")[0] == "rosalind":
                yield name
        elif isinstance(node, ast.Import):
            yield from (
                alias.name for alias in node.names if alias.name.partition(".")[0] == "rosalind"
            )
