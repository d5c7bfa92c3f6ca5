"""What the four command lines share: exit codes, logging, progress bars."""

import errno
import logging
import os
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NoReturn, TypeVar

from tqdm import tqdm

from jupyt5.errors import Jupyt5Error

__all__ = [
    "EXIT_FAILED",
    "EXIT_INTERRUPTED",
    "EXIT_OK",
    "EXIT_USAGE",
    "Watch",
    "progress",
    "run",
    "setup_logging",
    "watch_progress",
]

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

_LOG_EVERY_S = 30.0

logger = logging.getLogger(__name__)
T = TypeVar("T")
Watch = Callable[[int, int], None]


def run(body: Callable[[], int], *, extra: str = "all") -> int:
    """Run a command's body and turn what it raises into one message and an exit code.

    Args:
        body: The command; imports what it needs itself.
        extra: The extra to install when one of the packages it imports is missing.

    Returns:
        The body's own code; a ``Jupyt5Error``'s ``exit_code``; 1 for an operating system error or
        a missing package; 130 after Ctrl-C. Any other exception is a defect of ours and passes
        through.
    """
    try:
        return body()
    except Jupyt5Error as exc:
        _say(str(exc))
        return exc.exit_code
    except KeyboardInterrupt as exc:
        # Its text, if it has one, says what is kept and how to go on.
        sys.stderr.write(f"Interrupted. {exc}".rstrip() + "\n")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing more can be said on stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except OSError as exc:
        _say(_os_error_message(exc))
        return EXIT_FAILED
    except ModuleNotFoundError as exc:
        package = (exc.name or "").partition(".")[0]
        if not package or package.startswith("jupyt5"):
            raise
        _say(
            f"The package {package} is not installed. Install what this command needs with "
            f"`pip install 'jupyt5[{extra}]'`."
        )
        return EXIT_FAILED


def setup_logging(*, verbose: bool = False) -> None:
    """Send log records to stderr, once: level INFO, or DEBUG when ``verbose``."""
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        datefmt="%H:%M:%S",
        stream=sys.stderr,
    )
    if not verbose:
        logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each request


def progress(
    items: Iterable[T],
    *,
    desc: str,
    total: int | None = None,
    unit: str = "it",
    delay_s: float = 0.0,
) -> Iterator[T]:
    """Pass ``items`` on while showing a bar on stderr; without a terminal, log every 30 s.

    Args:
        items: What is worked on.
        desc: What is counted and what happens to it, in the plural: ``problems answered``.
        total: How many there are; None if nobody knows.
        unit: One of them, for rates.
        delay_s: Show no bar before so many seconds.
    """
    if sys.stderr.isatty():
        bar = tqdm(items, desc=desc, total=total, unit=unit, delay=delay_s, dynamic_ncols=True)
        yield from bar
        return
    log = _Log(desc)
    for count, item in enumerate(items, start=1):
        yield item
        log(count, total)


@contextmanager
def watch_progress(desc: str, unit: str) -> Generator[Watch]:
    """Yield a function (done, total) that keeps a progress bar on stderr; see ``progress``."""
    if not sys.stderr.isatty():
        yield _Log(desc)
        return
    with ExitStack() as stack:
        bar: tqdm[NoReturn] | None = None

        def watch(done: int, total: int) -> None:
            nonlocal bar
            if bar is None:
                bar = stack.enter_context(_open_bar(desc, unit, done, total))
            bar.update(done - bar.n)

        yield watch


def _open_bar(desc: str, unit: str, done: int, total: int) -> "tqdm[NoReturn]":
    return tqdm(desc=desc, total=total, initial=done, unit=unit, dynamic_ncols=True)


class _Log:
    """Says how far work has come, not more often than every 30 s."""

    def __init__(self, desc: str) -> None:
        self._desc = desc
        self._last_s = time.monotonic()

    def __call__(self, done: int, total: int | None) -> None:
        if time.monotonic() - self._last_s >= _LOG_EVERY_S:
            self._last_s = time.monotonic()
            logger.info("%s: %d of %s", self._desc, done, "?" if total is None else total)


def _say(message: str) -> None:
    sys.stderr.write(f"error: {message}\n")


def _os_error_message(exc: OSError) -> str:
    if exc.errno is None:
        return str(exc)  # one of ours: a whole message
    where = f" ({exc.filename})" if exc.filename else ""
    what = exc.strerror or str(exc)
    if exc.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"The disk is full{where}. Free some space and run the command again."
    if exc.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return f"{what}{where}. Choose a place you may read and write."
    return f"{what}{where}. Check the path and run the command again."
