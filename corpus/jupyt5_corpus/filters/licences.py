"""Find a repository's licence; step ``licences``: keep what a policy allows.

Texts are identified by ``licenseclassifier`` (a port of google/licensecheck), which matches the
SPDX templates word by word and reports nothing rather than a guess. Whether a licence is permissive
is not decided here: the categories are ScanCode's, as ``license-expression`` ships them.

Detection is about a repository: call ``of_files`` once for its licence files and give the result to
all its notebooks. It is no legal advice.
"""

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import cast

from license_expression import (  # pyright: ignore[reportMissingTypeStubs]
    ExpressionError,
    LicenseWithExceptionSymbol,
    Licensing,
    get_license_index,
    get_spdx_licensing,
)
from licenseclassifier import identify_license

from jupyt5.errors import UsageError
from jupyt5_corpus.filters import removal_of
from jupyt5_corpus.row import Removal, Row

__all__ = [
    "POLICIES",
    "STEP",
    "UNRECOGNISED",
    "detect",
    "is_allowed",
    "is_permissive",
    "judge",
    "of_files",
]

STEP = "licences"
POLICIES = ("permissive", "permissive+none", "all")
"""``permissive``: only notebooks under a licence that asks for no more than attribution;
``permissive+none``: these and notebooks of repositories without a licence file; ``all``."""

UNRECOGNISED = "NOASSERTION"
"""SPDX's word for a repository that has licence files of which none was recognised."""

_COVERAGE = 40.0
"""Per cent of a text that has to be licence text. On the shared corpus 75 (the library's own
value) left 8 of 162 repositories open, 40 leaves 3; a text that merely names a licence has 0."""

_MAX_CHARS = 200_000
"""Of longer texts the beginning is read: files that list the licences of many dependencies."""

_OWN_COVERAGE = 75.0
"""The library's own value. Under it, the rest of the text must not speak of restrictions."""
_RESTRICTIONS = re.compile(
    r"non-? ?commercial|no ?derivat|share-? ?alike|commons clause|all rights reserved\W*$"
    r"|(?:not|prohibit)\b[^.]{0,60}\bcommercial|academic use only|research (?:use|purposes) only",
    re.IGNORECASE,
)

_MAX_EXPRESSION_CHARS = 1_000
_PERMISSIVE_CATEGORIES = frozenset({"Permissive", "Public Domain"})
_TAG = re.compile(r"SPDX-License-Identifier:[ \t]*([^\n*]+)")


def detect(text: str) -> str | None:
    """Identify the licence or licences of a text.

    Returns:
        An SPDX expression, licences joined by AND in the order of the text; None if the text is
        not, for the most part, that of known licences and carries no SPDX tag.
    """
    text = text[:_MAX_CHARS]
    matches = identify_license(text, _COVERAGE)
    if matches and not identify_license(text, _OWN_COVERAGE) and _RESTRICTIONS.search(text):
        return None
    if matches:
        return " AND ".join(dict.fromkeys(each.id for each in matches))
    tag = _TAG.search(text)
    tree = _parse(tag[1].strip(), must_be_known=True) if tag else None
    return None if tree is None else str(tree)


def of_files(texts: Mapping[str, str]) -> str | None:
    """Join the licences of a repository's licence files, in the order of their names.

    Args:
        texts: File name → text.

    Returns:
        An SPDX expression; ``UNRECOGNISED`` if there are files but none is recognised; None
        without files. Of several files one that is not recognised doesn't matter.
    """
    found = dict.fromkeys(
        part
        for name in sorted(texts)
        for part in (detect(texts[name]) or "").split(" AND ")
        if part
    )
    # A tag may hold OR, which binds less than AND.
    parts = [f"({part})" if " OR " in part and len(found) > 1 else part for part in found]
    return " AND ".join(parts) or (UNRECOGNISED if texts else None)


@cache
def is_permissive(expression: str) -> bool:
    """Tell whether an SPDX expression grants use on permissive terms alone.

    Of licences joined by AND all must be permissive, of those joined by OR one. An expression that
    cannot be read, or names a licence without a category, does not count as permissive.
    """
    tree = _parse(expression, must_be_known=False)
    return tree is not None and _allows(tree)


def is_allowed(expression: str | None, policy: str) -> bool:
    """Tell whether a policy allows a repository's licence; None stands for no licence.

    Raises:
        UsageError: If there is no such policy.
    """
    if policy not in POLICIES:
        message = f"There is no licence policy {policy!r}. Choose one of {', '.join(POLICIES)}."
        raise UsageError(message)
    if policy == "all":
        return True
    return policy == "permissive+none" if expression is None else is_permissive(expression)


def judge(row: Row, policy: str) -> Row | Removal:
    """Remove the row if the policy does not allow its repository's licence.

    Reasons: ``licence_none`` (the repository has no licence, or none is known),
    ``licence_unrecognised`` (its licence text is not that of a known licence) and
    ``licence_not_permissive``.

    Raises:
        UsageError: If there is no such policy.
    """
    if is_allowed(row.licence, policy):
        return row
    reason = "licence_not_permissive"
    if row.licence is None:
        reason = "licence_none"
    elif row.licence == UNRECOGNISED:
        reason = "licence_unrecognised"
    return removal_of(row, step=STEP, reason=reason, detail=row.licence or "no licence is known")


def _parse(expression: str, *, must_be_known: bool) -> object | None:
    """Return an SPDX expression as a tree; None if it is none or too long to be meant so."""
    if len(expression) > _MAX_EXPRESSION_CHARS:
        return None
    try:
        return _licensing().parse(expression, validate=must_be_known)  # pyright: ignore[reportUnknownMemberType]
    except ExpressionError:
        return None


def _allows(tree: object) -> bool:
    operator = cast("str", getattr(tree, "operator", "")).strip()
    if operator:
        parts = cast("tuple[object, ...]", getattr(tree, "args", ()))
        return all(map(_allows, parts)) if operator == "AND" else any(map(_allows, parts))
    # An exception adds to what the licence grants.
    is_excepted = isinstance(tree, LicenseWithExceptionSymbol)
    symbol = cast("object", getattr(tree, "license_symbol", tree)) if is_excepted else tree
    return _categories().get(str(symbol).lower()) in _PERMISSIVE_CATEGORIES


@cache
def _licensing() -> Licensing:
    return get_spdx_licensing()


@cache
def _categories() -> Mapping[str, str]:
    """SPDX identifier in lower case → ScanCode's category."""
    categories: dict[str, str] = {}
    for entry in cast("list[dict[str, object]]", get_license_index()):
        names = [entry["spdx_license_key"], *cast("list[str]", entry["other_spdx_license_keys"])]
        for name in names:
            if isinstance(name, str):
                categories.setdefault(name.lower(), str(entry["category"]))
    return MappingProxyType(categories)
