"""What the four command lines share: exit codes, logging, progress bars."""

import errno
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

from jupyt5.errors import Jupyt5Error

__all__ = [
    "EXIT_FAILED",
    "EXIT_INTERRUPTED",
    "EXIT_OK",
    "EXIT_USAGE",
    "progress",
    "run",
    "setup_logging",
]

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

_LOG_EVERY_S = 30.0

logger = logging.getLogger(__name__)
T = TypeVar("T")


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
    except KeyboardInterrupt:
        _say("Interrupted.")
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
    items: Iterable[T], *, desc: str, total: int | None = None, unit: str = "it"
) -> Iterator[T]:
    """Pass ``items`` on while showing a bar on stderr; without a terminal, log every 30 s."""
    if sys.stderr.isatty():
        yield from tqdm(items, desc=desc, total=total, unit=unit, dynamic_ncols=True)
        return
    last_s = time.monotonic()
    for count, item in enumerate(items, start=1):
        yield item
        if time.monotonic() - last_s >= _LOG_EVERY_S:
            last_s = time.monotonic()
            logger.info("%s: %d of %s %s", desc, count, total if total is not None else "?", unit)


def _say(message: str) -> None:
    sys.stderr.write(f"error: {message}\n" if message != "Interrupted." else "Interrupted.\n")


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
