"""One BioCoder problem, whatever file it came from."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = [
    "BioProblem",
    "Language",
    "end_signature",
    "is_too_deep",
    "names_function",
    "render_header",
    "unparse",
]

Language = str

_TOO_DEEP = (RecursionError, MemoryError)


@dataclass(frozen=True, slots=True, kw_only=True)
class BioProblem:
    """A function to write, with what a model may see of its surroundings.

    Attributes:
        task_id: Unique in its file.
        language: ``python`` or ``java``.
        function: Name of the function.
        other_names: Functions that a solution may define in its place.
        signature: Header of the function, decorators before it; without the final colon.
        summary: What the function has to do, in words; "" if the file has none.
        golden: Reference solution, the whole function.
        context: Test program with one insertion marker; "" if there is none. It may hold markers
            of generated inputs.
        surroundings: Parts of the project that the function may use, as code, for prompts.
        necessary: The parts of them that the function needs, where the file says so.
        class_name: Class that the function is a member of; "" for none.
        facts: Counts and places that the file gives, by its own column names.
    """

    task_id: str
    language: Language
    function: str
    signature: str
    golden: str = field(repr=False)
    summary: str = field(default="", repr=False)
    context: str = field(default="", repr=False)
    surroundings: tuple[str, ...] = field(default=(), repr=False)
    necessary: tuple[str, ...] = field(default=(), repr=False)
    class_name: str = ""
    other_names: tuple[str, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)


def end_signature(problem: BioProblem) -> str:
    """Return the signature ready to be followed by a body: with a colon or an opening brace."""
    text = problem.signature.rstrip()
    if problem.language == "java":
        return text if text.endswith("{") else f"{text} {{"
    return text if text.endswith(":") else f"{text}:"


def names_function(source: str) -> tuple[str, str]:
    """Return name and signature of the first function in Python source; ("", "") if none.

    The signature has the decorators' lines before it and no final colon.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "", ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = [f"@{unparse(one)}" for one in node.decorator_list]
            return node.name, "\n".join([*decorators, render_header(node)])
    return "", ""


def render_header(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return ``def name(arguments) -> result`` on one line, without a colon."""
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    result = f" -> {unparse(node.returns)}" if node.returns else ""
    return f"{word} {node.name}({_render_arguments(node.args)}){result}"


def unparse(node: ast.AST) -> str:
    """Return the code of a tree; ``...`` for one that is too deep to be written."""
    try:
        return ast.unparse(node)
    except _TOO_DEEP:
        return "..."


def is_too_deep(node: ast.AST) -> bool:
    """Whether a tree cannot be written as code."""
    try:
        ast.unparse(node)
    except _TOO_DEEP:
        return True
    return False


def _render_arguments(arguments: ast.arguments) -> str:
    """Return parameters as code; without annotations, defaults as ``...``, if that is too deep."""
    if not is_too_deep(arguments):
        return ast.unparse(arguments)

    def strip(listed: list[ast.arg]) -> list[ast.arg]:
        return [ast.arg(arg=one.arg) for one in listed]

    return ast.unparse(
        ast.arguments(
            posonlyargs=strip(arguments.posonlyargs),
            args=strip(arguments.args),
            vararg=ast.arg(arg=arguments.vararg.arg) if arguments.vararg else None,
            kwonlyargs=strip(arguments.kwonlyargs),
            kw_defaults=[ast.Constant(...) if one else None for one in arguments.kw_defaults],
            kwarg=ast.arg(arg=arguments.kwarg.arg) if arguments.kwarg else None,
            defaults=[ast.Constant(...) for _ in arguments.defaults],
        )
    )
