"""Fields of a request's JSON, each read with one clear refusal."""

import json
from collections.abc import Mapping
from typing import cast

__all__ = ["RequestError", "read_count", "read_flag", "read_object", "read_text", "whole_text"]

_MAX_COUNT = 1000


class RequestError(Exception):
    """A request that cannot be served: ``code`` for programs, the text for people."""

    def __init__(self, code: str, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


def read_object(body: bytes) -> Mapping[str, object]:
    """Parse a body as a JSON object.

    Raises:
        RequestError: If it is something else.
    """
    try:
        fields: object = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise RequestError("bad_request", f"The request is not JSON: {exc}") from exc
    if not isinstance(fields, dict):
        raise RequestError("bad_request", "The request must be a JSON object.")
    return cast("dict[str, object]", fields)


def read_text(fields: Mapping[str, object], name: str, default: str | None = None) -> str:
    """Return a text; without a default it must be there.

    Raises:
        RequestError: If it is something else.
    """
    value = fields.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise RequestError("bad_request", f"{name} must be text.")
    return value


def read_count(
    fields: Mapping[str, object],
    name: str,
    default: int,
    *,
    at_least: int = 0,
    at_most: int = _MAX_COUNT,
) -> int:
    """Return a whole number within bounds.

    Raises:
        RequestError: If it is something else.
    """
    value = fields.get(name)
    if value is None:
        return default
    if type(value) is not int or not at_least <= value <= at_most:
        message = f"{name} must be a whole number from {at_least} to {at_most}."
        raise RequestError("bad_request", message)
    return value


def read_flag(fields: Mapping[str, object], name: str) -> bool:
    """Return whether something is wanted; false where nothing is said.

    Raises:
        RequestError: If it is something else than true or false.
    """
    value = fields.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise RequestError("bad_request", f"{name} must be true or false.")
    return value


def whole_text(text: str) -> str:
    """Replace lone surrogates, which JSON can carry and no tokenizer can encode."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
