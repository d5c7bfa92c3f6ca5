"""Describes the variables of a kernel; its text runs there, so it is complete in itself.

Python 3.8 and the standard library are all it may count on. It asks only types that it knows, by
attributes that compute nothing, so no code of the user runs, and it never looks at a value.
"""

from __future__ import annotations

import types
from typing import Any, cast

__all__ = ["describe"]

_MAX_NAMES = 300
_MAX_COLUMNS = 40
_MAX_LABEL = 60
_SIZED = (list, tuple, dict, set, frozenset)


def describe(shell: Any) -> list[list[str]]:  # noqa: ANN401
    """Return [name, description] of each name that the user has bound, in order of creation."""
    hidden = shell.user_ns_hidden
    found = [
        [name, _describe(value)]
        for name, value in list(shell.user_ns.items())
        if type(name) is str and not name.startswith("_") and name not in hidden
    ]
    return found[-_MAX_NAMES:]


def _describe(value: Any) -> str:  # noqa: ANN401
    kind = cast("type[Any]", type(value))
    name = str(type.__dict__["__name__"].__get__(kind))  # past metaclasses, which may be the user's
    if kind is types.ModuleType:
        return f"module {_label(value.__dict__.get('__name__'))}"
    if kind is types.FunctionType:
        code = value.__code__
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return f"function({', '.join(arguments)})"
    if issubclass(kind, type):
        return "class"
    if kind in _SIZED:
        return f"{name}, {len(value)} items"
    library = str(type.__dict__["__module__"].__get__(kind)).partition(".")[0]
    describe_known = _KNOWN.get((library, name))
    if describe_known is None:
        return name
    try:
        return f"{name}, {describe_known(value)}"
    except Exception:
        return name


def _describe_frame(value: Any) -> str:  # noqa: ANN401
    columns = [
        f"{_label(column)} ({_label(dtype)})"
        for column, dtype in zip(value.columns, value.dtypes)  # noqa: B905 (Python 3.8)
    ]
    if len(columns) > _MAX_COLUMNS:
        columns[_MAX_COLUMNS:] = [f"{len(columns) - _MAX_COLUMNS} more"]
    return f"{len(value)} rows, columns {', '.join(columns)}"


def _describe_series(value: Any) -> str:  # noqa: ANN401
    return f"{len(value)} items, {_label(value.dtype)}"


def _describe_array(value: Any) -> str:  # noqa: ANN401
    return f"shape {tuple(value.shape)}, {_label(value.dtype)}"


_KNOWN = {
    ("pandas", "DataFrame"): _describe_frame,
    ("geopandas", "GeoDataFrame"): _describe_frame,
    ("polars", "DataFrame"): _describe_frame,
    ("pandas", "Series"): _describe_series,
    ("geopandas", "GeoSeries"): _describe_series,
    ("polars", "Series"): _describe_series,
    ("numpy", "ndarray"): _describe_array,
    ("torch", "Tensor"): _describe_array,
}


def _label(value: object) -> str:
    """Return text of one line, not too long."""
    return " ".join(str(value).split())[:_MAX_LABEL]
