"""Reads BioCoder's files in all layouts that are about.

- *rows*: JSON Lines, one problem a line, as public copies have it: ``id``/``test_case_id``/
  ``idx``, ``golden``/``goldenCode``/``solution``, ``context``/``contextCode``, and
  ``prompt``/``promptSummaryOnly``/``problem``. Where a row has ``context_fuzz`` too, that is the
  test: the same program with markers of inputs.
- *layout A*: one JSON object of columns, ``{column: {"0": value}}``, with ``golden`` and counts.
- *layout B*: the same with ``content``, ``signature``, ``comment`` and parts of the project.

Only rows have test programs. The other layouts make prompts, and cannot be executed.
"""

import ast
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import cast

from jupyt5.errors import ProblemSetError
from jupyt5_dsp.biocoder.insertion import find_slot
from jupyt5_dsp.biocoder.records import BioProblem, names_function
from jupyt5_dsp.jsonl import read_jsonl

__all__ = ["load_problems"]

Fields = Mapping[str, object]

_COUNTS = ("comment_lines", "tokens", "lines", "parameters", "functions", "globals", "imports")
_LONG_TEXTS = frozenset({"golden", "content", "comment", "imports", "additionalImports"})
# What is no fact but a part of the problem, in rows of any copy.
_OWN = frozenset(
    {"id", "test_case_id", "idx", "prompt", "promptSummaryOnly", "problem", "code"}
    | {"golden", "goldenCode", "solution", "context", "contextCode", "context_fuzz"}
    | {"surroundings", "necessary"}
)
_JAVA_WORDS = ("public ", "private ", "protected ", "static ", "final ")


def load_problems(path: Path) -> tuple[BioProblem, ...]:
    """Read one file of problems.

    Args:
        path: JSON Lines (also gzip) with rows, or a JSON object of columns.

    Raises:
        ProblemSetError: If it cannot be read, or lacks what a problem needs; names the row.
    """
    read = _read_columns if path.suffix == ".json" else _read_rows
    problems = tuple(read(path))
    if not problems:
        message = f"{path} has no problems in it. Restore the file or choose another."
        raise ProblemSetError(message)
    seen: set[str] = set()
    for problem in problems:
        if problem.task_id in seen:
            message = f"{path} has {problem.task_id} twice. Keep one of them."
            raise ProblemSetError(message)
        seen.add(problem.task_id)
    return problems


def _read_rows(path: Path) -> Iterator[BioProblem]:
    for number, fields in enumerate(read_jsonl(path), start=1):
        yield _complete(_make_from_row, fields, f"{path}, record {number}")


def _read_columns(path: Path) -> Iterator[BioProblem]:
    try:
        content: object = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as exc:
        message = f"{path} cannot be read as JSON: {exc}. Check the path and the file."
        raise ProblemSetError(message) from exc
    if not isinstance(content, dict) or not all(isinstance(one, dict) for one in content.values()):  # pyright: ignore[reportUnknownVariableType,reportUnknownMemberType]
        message = (
            f"{path} is not an object of columns, {{column: {{row: value}}}}. "
            "Rows, one a line, belong into a .jsonl file."
        )
        raise ProblemSetError(message)
    columns = cast("dict[str, dict[str, object]]", content)
    key = "content" if "content" in columns else "golden"
    make = _make_from_layout_b if key == "content" else _make_from_layout_a
    for row in columns.get(key, {}):
        fields: dict[str, object] = {name: cells.get(row) for name, cells in columns.items()}
        fields["task_id"] = f"{path.stem}/{row}"
        yield _complete(make, fields, f"{path}, row {row}")


def _complete(make: Callable[[Fields], BioProblem], fields: Fields, place: str) -> BioProblem:
    try:
        problem = make(fields)
    except (KeyError, TypeError, ValueError) as exc:
        reason = f"field {exc} is missing" if isinstance(exc, KeyError) else str(exc)
        message = f"{place}: {reason}. Mend or remove it."
        raise ProblemSetError(message) from exc
    if problem.context:
        find_slot(problem.context, problem.task_id)
    return problem


def _complete_signature(given: str, header: str) -> str:
    """Return the reference's own header where a copy's has lost the default values.

    Test programs rely on them, and a body gets no other header than the one that is shown.
    """
    own, other = _parse_header(header), _parse_header(given)
    if own is None or other is None:
        return given or header
    names, num_defaults = own
    return header if names == other[0] and num_defaults > other[1] else given


def _parse_header(header: str) -> tuple[list[str], int] | None:
    """Return (parameters, how many have a default); None if that is no header of Python."""
    try:
        (node,) = ast.parse(f"{header.rstrip().rstrip(':')}: pass").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    listed = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    num_defaults = len(node.args.defaults) + sum(one is not None for one in node.args.kw_defaults)
    return [one.arg for one in listed], num_defaults


def _make_from_row(fields: Fields) -> BioProblem:
    golden = _text_of(fields, "golden", "goldenCode", "solution")
    name, header = names_function(golden)
    return BioProblem(
        task_id=_text_of(fields, "id", "test_case_id", "idx"),
        language=str(fields.get("language") or "python").lower(),
        function=str(fields.get("function") or name),
        signature=_complete_signature(str(fields.get("signature") or ""), header),
        golden=golden,
        summary=str(
            fields.get("prompt") or fields.get("promptSummaryOnly") or fields.get("problem") or ""
        ),
        context=str(
            fields.get("context_fuzz") or fields.get("context") or fields.get("contextCode") or ""
        ),
        surroundings=_texts_of(fields.get("surroundings")),
        necessary=_texts_of(fields.get("necessary")),
        class_name=str(fields.get("class_name") or ""),
        facts={key: value for key, value in fields.items() if key not in _OWN},
    )


def _make_from_layout_a(fields: Fields) -> BioProblem:
    golden = _text_of(fields, "golden")
    is_java = golden.lstrip().startswith(("/**", "//", *_JAVA_WORDS))
    name, header = ("", "") if is_java else names_function(golden)
    if is_java:
        name, header = _name_java(golden)
    return BioProblem(
        task_id=_text_of(fields, "task_id"),
        language="java" if is_java else "python",
        function=name,
        signature=header,
        golden=golden,
        facts={key: fields[key] for key in _COUNTS if key in fields},
    )


def _make_from_layout_b(fields: Fields) -> BioProblem:
    golden = _text_of(fields, "content")
    signature = _text_of(fields, "signature")
    is_java = not signature.lstrip().startswith(("def ", "async def ", "@"))
    return BioProblem(
        task_id=_text_of(fields, "task_id"),
        language="java" if is_java else "python",
        function=signature.partition("(")[0].split()[-1],
        signature=signature,
        golden=golden,
        summary=_plain_comment(str(fields.get("comment") or "")),
        surroundings=tuple(_iter_surroundings(fields)),
        class_name=str(fields.get("parentClass") or ""),
        facts={key: value for key, value in fields.items() if key not in _LONG_TEXTS},
    )


def _iter_surroundings(fields: Fields) -> Iterator[str]:
    """Yield what layout B says of the project: class skeletons, then members of the class."""
    imports = fields.get("imports")
    for one in cast("list[object]", imports) if isinstance(imports, list) else []:
        if isinstance(one, dict):
            yield str(cast("Fields", one).get("methodsOnly") or "")
        else:
            yield str(one)
    yield from (str(skeleton) for skeleton in _read_mapping(fields.get("additionalImports")))
    yield str(fields.get("intraClassFieldsUsed") or "")


def _read_mapping(value: object) -> list[object]:
    """Return the values of a mapping that some rows hold as the text of a Python literal."""
    if isinstance(value, str) and value.strip():
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return [value]
    return list(cast("Mapping[str, object]", value).values()) if isinstance(value, dict) else []


def _name_java(golden: str) -> tuple[str, str]:
    """Return name and header of a Java method, without its comment."""
    code = golden.rpartition("*/")[2] if golden.lstrip().startswith("/*") else golden
    header = " ".join(code.partition("{")[0].split())
    return header.partition("(")[0].split()[-1] if "(" in header else "", header


def _plain_comment(text: str) -> str:
    lines = (line.strip().removeprefix("/**").removesuffix("*/") for line in text.splitlines())
    return "\n".join(line.strip().lstrip("*").strip() for line in lines).strip()


def _text_of(fields: Fields, *names: str) -> str:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if value is not None and not isinstance(value, str):
            message = f"{name} is {value!r}, not a text"
            raise TypeError(message)
    raise KeyError(names[0])


def _texts_of(value: object) -> tuple[str, ...]:
    return tuple(str(one) for one in cast("list[object]", value)) if isinstance(value, list) else ()
