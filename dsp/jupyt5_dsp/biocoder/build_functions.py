"""Makes BioCoder problems out of a Python project: functions with all that they need."""

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jupyt5.errors import UsageError
from jupyt5.files import write_atomic
from jupyt5_dsp.biocoder.needs import Project, Target, find_needs, list_surroundings
from jupyt5_dsp.biocoder.project import read_project
from jupyt5_dsp.biocoder.records import is_too_deep, render_header, unparse
from jupyt5_dsp.biocoder.source import Definition, FunctionNode, Module
from jupyt5_dsp.jsonl import render_jsonl

__all__ = ["FUNCTIONS_FILE", "build_functions"]

FUNCTIONS_FILE = "functions.jsonl"


@dataclass(frozen=True, slots=True)
class _Found:
    target: Target
    definition: Definition


def build_functions(project_path: Path, out_path: Path) -> dict[str, object]:
    """Write one problem for each function of a project; nothing of the project is run.

    Each line of ``functions.jsonl`` can be read as a BioCoder row: the function, its header, its
    docstring as summary, the surroundings in its file, and what it needs of the project. There
    are no test programs in it: add a ``context`` to a line, and its problem can be executed.
    Passwords and keys are masked as far as ``masking`` knows them.

    Args:
        project_path: Folder of a Python project.
        out_path: Folder of the result; made if it is missing.

    Returns:
        Counts: files, functions, secrets masked, functions left out by reason; and the files that
        could not be parsed.

    Raises:
        UsageError: If there is no project, no function in it, or a result in the folder.
    """
    file_path = out_path / FUNCTIONS_FILE
    if file_path.exists():
        message = f"{file_path} is there already. Choose another --out, or remove the file."
        raise UsageError(message)
    read = read_project(project_path)
    found = [(one, _explain_left_out(one.definition)) for one in _iter_functions(read.project)]
    left_out = Counter(reason for _, reason in found if reason)
    records = [_make_record(read.project, one) for one, reason in found if not reason]
    if not records:
        message = f"{project_path} has no Python function that does something. Choose another."
        raise UsageError(message)
    out_path.mkdir(parents=True, exist_ok=True)
    write_atomic(file_path, render_jsonl(records))
    return {
        "num_files": len(read.project.modules) + len(read.unreadable),
        "num_functions": len(records),
        "num_masked": read.num_masked,
        "left_out": dict(sorted(left_out.items())),
        "unreadable": list(read.unreadable),
    }


def _iter_functions(project: Project) -> Iterator[_Found]:
    for module in sorted(project.modules.values(), key=lambda one: one.path):
        for one in module.definitions.values():
            if one.kind == "function":
                yield _Found(Target(module, one.name), one)
            elif one.kind == "class":
                for member in one.members.values():
                    if member.kind == "function":
                        yield _Found(Target(module, member.name, one.name), member)


def _explain_left_out(definition: Definition) -> str:
    node = definition.node
    assert isinstance(node, FunctionNode)
    if all(map(_is_idle, node.body)):
        return "empty body"
    parts: list[ast.AST | None] = [*node.decorator_list, node.args, node.returns]
    return "too deep" if any(part and is_too_deep(part) for part in parts) else ""


def _is_idle(node: ast.stmt) -> bool:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or isinstance(node, ast.Pass)


def _make_record(project: Project, found: _Found) -> dict[str, object]:
    target, node = found.target, found.definition.node
    assert isinstance(node, FunctionNode)
    module = target.module
    place = f"{target.class_name}.{target.function}" if target.class_name else target.function
    surroundings = list_surroundings(module, target)
    needs = find_needs(project, target)
    return {
        "id": f"{module.path}:{place}",
        "language": "python",
        "function": target.function,
        "class_name": target.class_name,
        "signature": _make_header(node),
        "prompt": ast.get_docstring(node) or "",
        "golden": found.definition.text,
        "surroundings": list(surroundings.parts),
        "necessary": list(needs.parts),
        "path": module.path,
        "line_start": node.lineno,
        "line_end": node.end_lineno,
        "parameters": _count_parameters(node),
        **_count(module, surroundings.functions, surroundings.classes),
    }


def _make_header(node: FunctionNode) -> str:
    decorators = [f"@{unparse(one)}" for one in node.decorator_list]
    return "\n".join([*decorators, render_header(node)])


def _count_parameters(node: FunctionNode) -> int:
    arguments = node.args
    named = len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)
    return named + bool(arguments.vararg) + bool(arguments.kwarg)


def _count(module: Module, functions: tuple[str, ...], classes: tuple[str, ...]) -> dict[str, int]:
    return {
        "imports": len(module.imports),
        "globals": sum(one.kind == "global" for one in module.definitions.values()),
        "functions": len(functions) + len(classes),
    }
