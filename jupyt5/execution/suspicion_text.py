"""Texts that a cell spells in a roundabout way: ``"f_" + "back"``, ``"kcab_f"[::-1]``."""

import ast
import base64
import binascii
import codecs
from collections.abc import Callable

__all__ = ["fold_text", "is_built_text", "is_range", "is_whole_number"]

Lookup = Callable[[str], str | None]

_MAX_DEPTH = 24
_MAX_CHARS = 10_000
_PLAIN_METHODS = frozenset(
    {"lower", "upper", "strip", "title", "capitalize", "swapcase", "casefold"}
)
_BUILDERS = frozenset(
    [
        "join",
        "decode",
        "fromhex",
        "b64decode",
        "b32decode",
        "b16decode",
        "a85decode",
        "unhexlify",
        "translate",
        "maketrans",
        "decompress",
        "rot13",
        "swapcase",
    ]
)


def fold_text(node: ast.expr | None, lookup: Lookup, depth: int = 0) -> str | None:
    """Return the text that a constant expression makes; bytes as Latin-1; None if unknown.

    Args:
        node: Any expression.
        lookup: Tells the text that a name stands for, if it stands for one.
        depth: How deep the expression lies in the one that was asked for.
    """
    if node is None or depth > _MAX_DEPTH:
        return None
    try:
        text = _fold(node, lookup, depth + 1)
    except (ValueError, TypeError, LookupError, UnicodeError, OverflowError, binascii.Error):
        return None
    return text if text is not None and len(text) <= _MAX_CHARS else None


def is_built_text(node: ast.expr) -> bool:
    """Whether an expression decodes, reverses or joins pieces into a text."""
    for part in ast.walk(node):
        match part:
            case ast.Call(func=ast.Attribute(attr=attr)) if attr in _BUILDERS:
                return True
            case ast.Call(func=ast.Name(id="chr" | "bytes" | "bytearray")):
                return True
            case ast.Slice(step=ast.UnaryOp()):
                return True
            case _:
                pass
    return False


def is_whole_number(node: ast.expr | None) -> bool:
    """Whether an expression is a literal whole number."""
    return isinstance(node, ast.Constant) and type(node.value) is int


def is_range(node: ast.expr) -> bool:
    """Whether an expression is a call of ``range``, or a literal list of whole numbers."""
    match node:
        case ast.Call(func=ast.Name(id="range")):
            return True
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return bool(items) and all(is_whole_number(item) for item in items)
        case _:
            return False


def _fold(node: ast.expr, lookup: Lookup, depth: int) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Constant(value=bytes(data)):
            return data.decode("latin-1")
        case ast.Name(id=name):
            return lookup(name)
        case ast.BinOp(left=left, right=right, op=op):
            return _fold_operation(left, op, right, lookup, depth)
        case ast.JoinedStr(values=values):
            return _concatenate(values, lookup, depth)
        case ast.FormattedValue(value=value):
            return fold_text(value, lookup, depth)
        case ast.Subscript(value=value, slice=ast.Slice() as cut):
            text = fold_text(value, lookup, depth)
            bounds = [_number(part) for part in (cut.lower, cut.upper, cut.step)]
            return None if text is None else text[slice(*bounds)]
        case ast.Call():
            return _fold_call(node, lookup, depth)
        case _:
            return None


def _fold_operation(
    left: ast.expr, op: ast.operator, right: ast.expr, lookup: Lookup, depth: int
) -> str | None:
    text = fold_text(left, lookup, depth)
    if text is None:
        return None
    if isinstance(op, ast.Add):
        tail = fold_text(right, lookup, depth)
        return None if tail is None else text + tail
    if isinstance(op, ast.Mult):
        count = _number(right)
        return None if count is None or count * len(text) > _MAX_CHARS else text * count
    if isinstance(op, ast.Mod):
        parts = right.elts if isinstance(right, ast.Tuple) else [right]
        texts = [fold_text(part, lookup, depth) for part in parts]
        if None in texts or text.count("%") != text.count("%s"):  # "%999999999s" fills memory
            return None
        return text % tuple(texts)
    return None


def _fold_call(node: ast.Call, lookup: Lookup, depth: int) -> str | None:
    args = node.args
    if isinstance(node.func, ast.Name):
        if node.func.id == "chr" and args:
            number = _number(args[0])
            return None if number is None else chr(number)
        if node.func.id in ("str", "bytes", "bytearray", "reversed") and args:
            text = _fold_items(args[0], lookup, depth)
            return text[::-1] if text is not None and node.func.id == "reversed" else text
        return None
    if not isinstance(node.func, ast.Attribute):
        return None
    name = node.func.attr
    first = fold_text(args[0], lookup, depth) if args else None
    if first is not None and name in ("b64decode", "urlsafe_b64decode"):
        return base64.b64decode(first).decode("latin-1")
    if first is not None and name in ("fromhex", "unhexlify"):
        return bytes.fromhex(first).decode("latin-1")
    if first is not None and name == "decode" and len(args) > 1:
        codec = fold_text(args[1], lookup, depth) or ""
        return codecs.decode(first, codec) if codec in ("rot13", "rot_13") else None
    text = fold_text(node.func.value, lookup, depth)
    return None if text is None else _fold_method(text, name, args, lookup, depth)


def _fold_method(
    text: str, name: str, args: list[ast.expr], lookup: Lookup, depth: int
) -> str | None:
    if name in ("decode", "encode"):
        return text
    if name in _PLAIN_METHODS and not args:
        return str(getattr(text, name)())
    if name == "join" and len(args) == 1:
        items = args[0].elts if isinstance(args[0], ast.List | ast.Tuple) else None
        if items is None:
            joined = _fold_items(args[0], lookup, depth)
            return None if joined is None else text.join(joined)
        parts = [fold_text(item, lookup, depth) for item in items]
        return None if None in parts else text.join(part for part in parts if part is not None)
    texts = [fold_text(arg, lookup, depth) for arg in args]
    if None in texts:
        return None
    known = [part for part in texts if part is not None]
    if name == "replace" and len(known) == 2:
        return text.replace(known[0], known[1])
    # Only plain fields: "{0.real}" would look into objects, "{:9999999}" would fill memory.
    if name == "format" and ":" not in text and "." not in text and "[" not in text:
        return text.format(*known)
    return None


def _fold_items(node: ast.expr, lookup: Lookup, depth: int) -> str | None:
    """Fold ``[102, 95]`` or ``map(chr, [102, 95])`` or any text."""
    if isinstance(node, ast.List | ast.Tuple):
        numbers = [_number(item) for item in node.elts]
        return None if None in numbers else "".join(chr(n) for n in numbers if n is not None)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "map":
        return _fold_items(node.args[1], lookup, depth) if len(node.args) == 2 else None
    return fold_text(node, lookup, depth)


def _concatenate(parts: list[ast.expr], lookup: Lookup, depth: int) -> str | None:
    texts = [fold_text(part, lookup, depth) for part in parts]
    return None if None in texts else "".join(text for text in texts if text is not None)


def _number(node: ast.expr | None) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _number(node.operand)
        return None if number is None else -number
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 10**7:
        return node.value
    return None
