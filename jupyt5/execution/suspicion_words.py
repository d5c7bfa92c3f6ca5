"""Texts that a cell holds, and its magics: code that is built or evaluated passes through one."""

import re
from collections.abc import Iterator

from jupyt5.execution.suspicion_tables import (
    COMPARISON,
    COMPARISON_NAMES,
    DESCRIPTORS,
    NATIVE,
    PLANTED,
    READ,
    SHADOWED_MODULES,
    STARTUP_FILES,
    WORD_FLAGS,
)

__all__ = ["PYTHON_FILE", "find_python", "scan_aside", "scan_text"]

_WORD = re.compile(r"\w+")
PYTHON_FILE = re.compile(r"[\w-]{1,60}\.(?:py|ini)\b")
_PROC = re.compile(r"/proc/[\w./*{}%]{0,99}\b(mem|maps|pagemap)\b|/dev/mem|\bgdb\b")
_PROC_FD = re.compile(r"/proc/[\w.{}%]{1,99}/fd|/dev/fd")
_NOTEBOOK_FILE = re.compile(r"\.ipynb\b|problems\.jsonl|samples(_reference)?\.jsonl|<grading")
_STARTUP_WORDS = frozenset({"PYTHONSTARTUP", "LD_PRELOAD"})
_HISTORY_MAGIC = re.compile(r"^%+(history|hist|recall|rerun|rep|save|notebook|macro)\b")
_NATIVE_MAGIC = re.compile(r"^%+(cython|fortran|julia|cffi|c\b|cpp|inline)", re.IGNORECASE)

# %time f(x), %timeit -n 3 f(x), a = %time f(x): what follows the name and its options is Python.
_BEFORE_PYTHON = re.compile(r"^(?:[\w.,()\[\] \t]+=\s*)?(?:%+\w+|[!?,;/]+)(?:\s+-\S+(?:\s+\d+)?)*")


def scan_aside(aside: str) -> Iterator[str]:
    """Flag a magic, a shell escape, or the body of a cell magic that is not Python."""
    yield from scan_text(aside)
    if _HISTORY_MAGIC.match(aside):
        yield READ
    if _NATIVE_MAGIC.match(aside):
        yield NATIVE


def find_python(aside: str) -> str:
    """Return the Python that a magic is given on its own line; "" if there is none."""
    match = _BEFORE_PYTHON.match(aside)
    return aside[match.end() :].strip() if match else ""


def scan_text(text: str) -> Iterator[str]:
    """Flag the words, paths and file names in a text."""
    for word in set(_WORD.findall(text)):
        if word in COMPARISON_NAMES and len(text) < 200:
            yield COMPARISON
        flag = WORD_FLAGS.get(word)
        if flag:
            yield flag
        if word in _STARTUP_WORDS:
            yield PLANTED
    if "/" in text or "gdb" in text:
        if _PROC.search(text):
            yield NATIVE
        if _PROC_FD.search(text):
            yield DESCRIPTORS
    if "." in text or "<" in text:
        if _NOTEBOOK_FILE.search(text) and "://" not in text:
            yield READ
        yield from _find_planted(text)


def _find_planted(text: str) -> Iterator[str]:
    for name in PYTHON_FILE.findall(text):
        if name in STARTUP_FILES or name.removesuffix(".py") in SHADOWED_MODULES:
            yield PLANTED
    if re.search(r"\b(?:numpy|pandas|unittest|nose)/__init__\.py", text):
        yield PLANTED
