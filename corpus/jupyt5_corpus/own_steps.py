"""A recipe's own Python code: run it, and make one clear error of whatever it does wrong."""

import sys
import traceback
from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import CodeType

from jupyt5.errors import CorpusError, UsageError
from jupyt5_corpus.filters import RowStep
from jupyt5_corpus.row import Removal, Row

__all__ = ["bad_recipe", "guard_step", "load_python"]

_MAX_MESSAGE_CHARS = 500


def bad_recipe(label: str, reason: str) -> UsageError:
    """Make the error that says why a recipe cannot be used."""
    return UsageError(f"Recipe {label} cannot be used: {reason}. Mend the recipe.")


def load_python(path: Path, label: str) -> Mapping[str, object]:
    """Run a Python recipe and return its names.

    Args:
        path: The file, perhaps a copy of the user's.
        label: What errors call it.

    Raises:
        UsageError: If it fails, or ends the program.
    """
    loader = _UncachedLoader(f"_recipe_{path.stem}", str(path))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    # Data classes look their module up there.
    sys.modules[spec.name] = module
    try:
        loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as exc:
        raise bad_recipe(label, f"it raises {_describe(exc, path)}") from exc
    return vars(module)


def guard_step(name: str, step: Callable[..., object], label: str) -> RowStep:
    """Wrap a step of a recipe's own, so that what it does wrong is one error.

    Args:
        name: The step's name in the recipe.
        step: The recipe's function, its options bound.
        label: What errors call the recipe.

    Returns:
        A step that raises ``CorpusError`` where the recipe's raises anything but Ctrl-C, or
        returns anything but a row or a removal.
    """
    function = getattr(step, "func", step)
    code = getattr(function, "__code__", None)
    path = Path(code.co_filename) if code is not None else None

    def guarded(row: Row) -> Row | Removal:
        try:
            result = step(row)
        except KeyboardInterrupt:
            raise
        except BaseException as exc:
            raise _failure(label, name, row, f"raises {_describe(exc, path)}") from exc
        if isinstance(result, Row | Removal):
            return result
        what = "None" if result is None else f"an object of type {type(result).__name__}"
        raise _failure(label, name, row, f"returns {what}, not a Row or a Removal")

    return guarded


class _UncachedLoader(SourceFileLoader):
    """Reads the source always, and leaves no ``__pycache__`` beside it."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _failure(label: str, name: str, row: Row, what: str) -> CorpusError:
    # A path may hold line breaks.
    place = " ".join(f"{row.repo}/{row.path}".splitlines())
    return CorpusError(f"Recipe {label}: step {name} {what}; notebook {place}. Mend the recipe.")


def _describe(exc: BaseException, path: Path | None) -> str:
    """Describe an exception in one line, with the line of the recipe that led to it."""
    text = " ".join(str(exc).split())[:_MAX_MESSAGE_CHARS]
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(exc.__traceback__)
        if path is not None and frame.filename == str(path)
    ]
    where = f" (line {lines[-1]})" if lines else ""
    return f"{type(exc).__name__}{': ' if text else ''}{text}{where}"
