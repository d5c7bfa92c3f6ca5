"""Takes passwords and keys out of source text that will be shown to models.

What is built of a project goes into prompts, and prompts may go to somebody else's service. Found
are keys of well-known forms, wherever they stand, and texts that are given to a name like
``API_KEY`` or ``password``. A secret of another form under an ordinary name is not found.
"""

import ast
import re
from collections.abc import Iterator

__all__ = ["MASK", "mask_secrets"]

MASK = "MASKED"

# Forms that the issuers document. Runs of letters alone are none: they may be sequences.
_KEYS = re.compile(
    r"""
    (?<![\w-])(?:
        sk-(?=[\w-]*\d)[\w-]{20,}                          # OpenAI, Anthropic
        | (?:AKIA|ASIA)(?=[A-Z]*\d)[0-9A-Z]{16}(?![0-9A-Z])  # AWS
        | gh[pousr]_\w{36,} | github_pat_\w{22,}           # GitHub
        | glpat-[\w-]{20,}                                 # GitLab
        | xox[abeoprs]-(?=[\w-]*\d)[\w-]{10,}              # Slack
        | AIza(?=[\w-]*\d)[\w-]{35}                        # Google
        | [rs]k_(?:live|test)_\w{16,}                      # Stripe
        | hf_(?=\w*\d)\w{30,}                              # Hugging Face
        | npm_\w{36} | pypi-AgE[\w-]{30,}                  # npm, PyPI
        | eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}         # JSON web tokens
    )
    | (?<=://)[^\s/:@'"{}]+:[^\s/:@'"{}]+(?=@)             # name:password@host
    | (?<=PRIVATE[ ]KEY-----)[\w+/=\s\\]{40,}(?=-----END)  # PEM
    """,
    re.VERBOSE,
)
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:secrets?|passw(?:or)?d|passwd|passphrase|credentials?"
    r"|(?:api|access|secret|private|auth|account|client)_?(?:key|token|secret))(?:$|_)",
    re.IGNORECASE,
)
_MAYBE_SECRET_NAME = re.compile(r"(?:^|_)(?:key|token|auth|pwd)(?:$|_)", re.IGNORECASE)
_LEAST_CHARS = 4
_LEAST_MAYBE_CHARS = 16  # of a word with a digit under a name like SORT_KEY

_Literal = ast.Constant


def mask_secrets(source: str) -> tuple[str, int]:
    """Replace secrets by ``MASKED``; lines stay where they are.

    Args:
        source: Python source; text that cannot be parsed is searched for well-known forms only.

    Returns:
        The source without them, and how many there were.
    """
    text, num_named = _mask_named(source)
    text, num_keys = _KEYS.subn(lambda found: MASK + "\n" * found[0].count("\n"), text)
    return text, num_named + num_keys


def _mask_named(source: str) -> tuple[str, int]:
    try:
        literals = {id(one): one for one in _iter_secrets(ast.parse(source))}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source, 0
    lines = [line.encode() for line in source.split("\n")]
    places = sorted(literals.values(), key=lambda one: (one.lineno, one.col_offset))
    num_masked = sum(_mask_literal(lines, one) for one in reversed(places))
    return b"\n".join(lines).decode(), num_masked


def _mask_literal(lines: list[bytes], literal: _Literal) -> bool:
    """Replace one literal; columns are bytes, and are not exact inside f-strings."""
    if literal.end_lineno is None:
        return False
    first, last = literal.lineno - 1, literal.end_lineno - 1
    before, after = lines[first][: literal.col_offset], lines[last][literal.end_col_offset :]
    whole = b"\n".join(lines[first : last + 1])
    text = whole[len(before) : len(whole) - len(after)].decode("utf-8", "replace")
    try:
        if ast.literal_eval(f"({text})") != literal.value:
            return False
    except (SyntaxError, ValueError):
        return False
    quotes = text[-1] * (3 if last > first else 1)
    sign = "b" if isinstance(literal.value, bytes) else ""
    mask = f"{sign}{quotes}{MASK}" + "\n" * (last - first) + quotes
    lines[first : last + 1] = (before + mask.encode() + after).split(b"\n")
    return True


def _iter_secrets(tree: ast.AST) -> Iterator[_Literal]:
    for name, value in _iter_named(tree):
        if not isinstance(value, _Literal) or not isinstance(value.value, str | bytes):
            continue
        text = value.value if isinstance(value.value, str) else value.value.decode("latin-1")
        if _is_secret(name, text):
            yield value


def _is_secret(name: str, text: str) -> bool:
    if len(text.split()) != 1 or text == MASK:
        return False
    # ApiKey and apiKey are api_key.
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    if _SECRET_NAME.search(name):
        return len(text) >= _LEAST_CHARS
    is_long = len(text) >= _LEAST_MAYBE_CHARS and any(char.isdigit() for char in text)
    return is_long and bool(_MAYBE_SECRET_NAME.search(name))


def _iter_named(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield names with what is assigned to them: variables, attributes, arguments, keys."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from ((_name_of(target), value) for target in targets)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield _name_of(target), value
            case ast.keyword(arg=str(name), value=value):
                yield name, value
            case ast.Dict(keys=keys, values=values):
                named = zip(keys, values, strict=True)
                yield from ((_name_of(key), value) for key, value in named if key)
            case ast.arguments():
                yield from _iter_defaults(node)
            case _:
                continue


def _iter_defaults(node: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    placed = [*node.posonlyargs, *node.args]
    yield from (
        (one.arg, value)
        for one, value in zip(
            placed[len(placed) - len(node.defaults) :], node.defaults, strict=True
        )
    )
    named = zip(node.kwonlyargs, node.kw_defaults, strict=True)
    yield from ((one.arg, value) for one, value in named if value)


def _name_of(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
            return name
        case ast.Subscript(slice=part):
            return _name_of(part)
        case _:
            return ""
