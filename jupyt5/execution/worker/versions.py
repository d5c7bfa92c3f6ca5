"""Has a dict changed? Has a class got new subclasses? Answered without touching what they hold.

A forked process pays for each page of memory in which it first touches an object, for touching
counts references: to compare the namespaces of the data-science stack costs it ten milliseconds.
CPython up to 3.11 gives every state of a dict a number of its own (``ma_version_tag``, PEP 509);
here it is read from where it lies. Without such numbers the answer is "perhaps".
"""

import ctypes
import sys

__all__ = ["DictVersion", "SubclassVersion"]

# Offsets in 64-bit CPython 3.8 to 3.11, Include/cpython/dictobject.h and object.h.
_MA_VERSION_TAG = 24
_TP_DICT, _TP_SUBCLASSES = 264, 360
_IS_KNOWN_LAYOUT = (
    sys.implementation.name == "cpython"
    and (3, 8) <= sys.version_info[:2] <= (3, 11)
    and sys.maxsize > 1 << 32
    and not hasattr(sys, "gettotalrefcount")
)


class DictVersion:
    """The state of a module's dict, or of a class's, at the time of making.

    Args:
        owner: The dict, or the class that has it.
    """

    __slots__ = ("_number", "_view")

    def __init__(self, owner):
        self._view = None
        if _IS_KNOWN_LAYOUT:
            address = _read(id(owner) + _TP_DICT) if isinstance(owner, type) else id(owner)
            self._view = ctypes.c_uint64.from_address(address + _MA_VERSION_TAG)
            self._number = self._view.value

    def is_same(self):
        """Whether it is certain that nothing was set or deleted since."""
        return self._view is not None and self._view.value == self._number


class SubclassVersion:
    """The direct subclasses of a class at the time of making."""

    __slots__ = ("_address", "_number", "_slot", "_view")

    def __init__(self, kind):
        self._slot = None
        if _IS_KNOWN_LAYOUT:
            self._slot = ctypes.c_uint64.from_address(id(kind) + _TP_SUBCLASSES)
            self._address = self._slot.value
            self._view, self._number = None, 0
            # A class that never had any subclass has no dict for them.
            if self._address:
                self._view = ctypes.c_uint64.from_address(self._address + _MA_VERSION_TAG)
                self._number = self._view.value

    def is_same(self):
        """Whether it is certain that no direct subclass came or went since."""
        if self._slot is None or self._slot.value != self._address:
            return False
        return self._view is None or self._view.value == self._number


def _read(address):
    return ctypes.c_uint64.from_address(address).value
