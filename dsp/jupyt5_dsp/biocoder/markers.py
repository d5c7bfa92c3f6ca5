"""Generated inputs: ``<|kind;argument=…|>`` in a test program becomes a read of its environment.

A marker becomes ``int(os.environ["PASSATK0"])`` or the like; the numbers count from the program's
last marker to its first. Where the program does not import ``os`` itself, the read does. Values
are drawn before the runs, so reference and hypothesis get the same ones. Input i of a problem
depends on seed, problem and i only.

One published rule is mended: ``bool(...)`` of a non-empty text is always true in Python, so there
a Boolean marker could never be false. Here it is compared with the texts that mean true.
"""

import ast
import random
import re
import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from jupyt5.errors import ProblemSetError
from jupyt5_dsp.biocoder.insertion import MARKER

__all__ = ["Marker", "find_markers", "find_reads", "make_input", "replace_markers"]

_PATTERN = re.compile(r"<\|(.*?)\|>", re.DOTALL)
_IMPORTS_OS = re.compile(r"^[ \t]*import\b[^#\n]*\bos\b", re.MULTILINE)
_VARIABLE = "PASSATK"
_READERS = ("environ", "environb", "getenv", "getenvb")
_WAYS = {_VARIABLE: "variable"} | dict.fromkeys(_READERS, "environment")
_INT_RANGE = (-100_000, 100_000)
_FLOAT_RANGE = (-100_000.0, 100_000.0)
_STRING_LENGTH = (10, 10)  # shortest, longest
_ALPHABETS = {
    "ascii": string.ascii_letters,
    "alpha": string.ascii_lowercase,
    "alphanumeric": string.ascii_lowercase + string.digits,
    "alphanumeric_special": string.ascii_lowercase + string.digits + string.punctuation,
    "alphanumeric_allcases": string.ascii_letters + string.digits,
}
_BOOL_TEXTS = {
    "lower": ("true", "false"),
    "upper": ("True", "False"),
    "python": ("True", "False"),
    "int": ("1", "0"),
}
_TRUE_TEXTS = ("true", "True", "1")
_QUOTES = ("double", "single", "none")

Draw = Callable[[random.Random], str]
_N = TypeVar("_N", int, float)


@dataclass(frozen=True, slots=True)
class Marker:
    """One place for a generated value.

    Attributes:
        kind: ``int``, ``float``, ``string`` or ``bool``.
        arguments: Values by name, e.g. ``range``: ``("0", "10")``.
        number: Of its environment variable.
        start: Offset in the program.
        end: Offset behind it.
    """

    kind: str
    arguments: Mapping[str, tuple[str, ...]]
    number: int
    start: int
    end: int

    @property
    def variable(self) -> str:
        """Name of the environment variable that holds its value."""
        return f"{_VARIABLE}{self.number}"


def find_markers(program: str, task_id: str) -> tuple[Marker, ...]:
    """Return a program's markers in the order of the text.

    Raises:
        ProblemSetError: If a kind, an argument or a value is unknown; names the marker.
    """
    found = list(_PATTERN.finditer(program))
    markers: list[Marker] = []
    for idx, match in enumerate(found):
        kind, arguments = _parse(match[1])
        marker = Marker(kind, arguments, len(found) - 1 - idx, match.start(), match.end())
        try:
            _KINDS[kind](arguments)
        except (KeyError, ValueError) as exc:
            reason = f"kind {kind!r} is unknown" if kind not in _KINDS else str(exc).strip("'\"")
            message = (
                f"Marker {match[0]!r} of {task_id}: {reason}. Known kinds: int, float, string, "
                "bool. Mend the context."
            )
            raise ProblemSetError(message) from exc
        markers.append(marker)
    return tuple(markers)


def replace_markers(program: str, markers: tuple[Marker, ...]) -> str:
    """Return a Python program that reads its inputs from the environment.

    Args:
        program: With the markers in it; an insertion marker may be there, too.
        markers: From ``find_markers``.
    """
    has_os = bool(_IMPORTS_OS.search(program))
    for quote in ('"', "'"):
        text = _substitute(program, markers, quote, has_os=has_os)
        # Inside an f-string only the other kind of quotes can be used before Python 3.12.
        if _can_be_parsed(text):
            return text
    return _substitute(program, markers, '"', has_os=has_os)


def make_input(
    markers: tuple[Marker, ...], *, seed: int, task_id: str, input_idx: int
) -> dict[str, str]:
    """Draw one value for each marker.

    Args:
        markers: From ``find_markers``.
        seed: Of the whole run.
        task_id: The problem.
        input_idx: Which of its inputs; each has a generator of its own.

    Returns:
        Environment variables.
    """
    generator = random.Random(f"{seed}:{task_id}:{input_idx}")
    by_number = sorted(markers, key=lambda marker: marker.number)
    return {
        marker.variable: _KINDS[marker.kind](marker.arguments)(generator) for marker in by_number
    }


def find_reads(source: str) -> frozenset[str]:
    """Return by which of two ways a solution's text gets at its inputs' values.

    ``variable``: it names one; ``environment``: it reads the environment, to set a variable is no
    reading. Names that are put together from pieces are not found.
    """
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset(way for word, way in _WAYS.items() if word in source)
    stored = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
    }
    return frozenset(way for one in nodes if id(one) not in stored for way in _iter_ways(one))


def _iter_ways(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=text) | ast.Attribute(attr=text) | ast.alias(name=text):
            pass
        case ast.Constant(value=str(text)):
            if "/environ" in text:  # /proc/self/environ
                yield _WAYS["environ"]
        case _:
            return
    if _VARIABLE in text:
        yield _WAYS[_VARIABLE]
    elif text in _WAYS:
        yield _WAYS[text]


def _parse(text: str) -> tuple[str, dict[str, tuple[str, ...]]]:
    kind, *parts = (part.strip() for part in text.split(";"))
    arguments: dict[str, tuple[str, ...]] = {}
    for part in parts:
        name, _, values = part.partition("=")
        arguments[name.strip()] = tuple(value.strip() for value in values.split(","))
    return kind, arguments


def _substitute(program: str, markers: tuple[Marker, ...], quote: str, *, has_os: bool) -> str:
    environment = "os.environ" if has_os else f"__import__({quote}os{quote}).environ"
    pieces: list[str] = []
    end = 0
    for marker in markers:
        pieces += [program[end : marker.start], _read_of(marker, quote, environment)]
        end = marker.end
    return "".join([*pieces, program[end:]])


def _read_of(marker: Marker, quote: str, environment: str) -> str:
    read = f"{environment}[{quote}{marker.variable}{quote}]"
    if marker.kind == "bool":
        texts = ", ".join(f"{quote}{text}{quote}" for text in _TRUE_TEXTS)
        return f"({read} in ({texts}))"
    return read if marker.kind == "string" else f"{marker.kind}({read})"


def _can_be_parsed(program: str) -> bool:
    try:
        ast.parse(program.replace(MARKER, "pass"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _int_of(arguments: Mapping[str, tuple[str, ...]]) -> Draw:
    _check_names(arguments, "range")
    low, high = _read_pair(arguments.get("range"), _INT_RANGE, int)
    return lambda generator: str(generator.randint(low, high))


def _float_of(arguments: Mapping[str, tuple[str, ...]]) -> Draw:
    _check_names(arguments, "range")
    low, high = _read_pair(arguments.get("range"), _FLOAT_RANGE, float)
    return lambda generator: repr(generator.uniform(low, high))


def _string_of(arguments: Mapping[str, tuple[str, ...]]) -> Draw:
    _check_names(arguments, "length", "type", "custom", "quotes")
    _read_choice(arguments, "quotes", _QUOTES, "none")  # without effect in an environment
    custom = arguments.get("custom")
    if custom is not None:
        return lambda generator: generator.choice(custom)
    length = arguments.get("length")
    low, high = _read_pair(
        length * 2 if length and len(length) == 1 else length, _STRING_LENGTH, int
    )
    alphabet = _ALPHABETS[_read_choice(arguments, "type", tuple(_ALPHABETS), "ascii")]
    if low < 0:
        message = f"length {low} is negative"
        raise ValueError(message)
    return lambda generator: "".join(generator.choices(alphabet, k=generator.randint(low, high)))


def _bool_of(arguments: Mapping[str, tuple[str, ...]]) -> Draw:
    _check_names(arguments, "type")
    texts = _BOOL_TEXTS[_read_choice(arguments, "type", tuple(_BOOL_TEXTS), "lower")]
    return lambda generator: generator.choice(texts)


_KINDS: dict[str, Callable[[Mapping[str, tuple[str, ...]]], Draw]] = {
    "int": _int_of,
    "float": _float_of,
    "string": _string_of,
    "bool": _bool_of,
}


def _check_names(arguments: Mapping[str, tuple[str, ...]], *names: str) -> None:
    for name in arguments:
        if name not in names:
            message = f"argument {name!r} is unknown; known: {', '.join(names)}"
            raise ValueError(message)


def _read_pair(
    values: tuple[str, ...] | None, default: tuple[_N, _N], kind: Callable[[str], _N]
) -> tuple[_N, _N]:
    if values is None:
        return default
    if len(values) != 2:
        message = f"{','.join(values)!r} is not two numbers"
        raise ValueError(message)
    low, high = kind(values[0]), kind(values[1])
    if low > high:
        message = f"{low} is more than {high}"
        raise ValueError(message)
    return low, high


def _read_choice(
    arguments: Mapping[str, tuple[str, ...]], name: str, known: tuple[str, ...], default: str
) -> str:
    value = ",".join(arguments.get(name, (default,)))
    if value not in known:
        message = f"{name} {value!r} is unknown; known: {', '.join(known)}"
        raise ValueError(message)
    return value
