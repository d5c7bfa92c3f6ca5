"""Fetching a whole list: in parallel, politely, and on from where an earlier run ended."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TypeVar

from tenacity import (
    AsyncRetrying,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from jupyt5.files import sha256_file
from jupyt5_corpus.fetch.client import TEMPORARY, Fetched, FetchLimits, fetch_repository
from jupyt5_corpus.fetch.folder import FetchFolder, Result
from jupyt5_corpus.fetch.hosts import Hosts
from jupyt5_corpus.fetch.targets import Failure, Target, read_targets, without_credentials
from jupyt5_corpus.sources.git import GitError

__all__ = ["FetchOptions", "fetch_list"]

# While one batch waits for its slowest repository, others go on.
_OPEN_BATCHES = 3
_FIRST_BACKOFF_S = 2.0
_MAX_BACKOFF_S = 120.0
_PAUSE_S = 60.0
_FORMAT = 1

logger = logging.getLogger(__name__)
Entry = Target | Failure
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """How to fetch.

    Attributes:
        num_workers: Repositories fetched at the same time.
        per_host: Of them, from one host.
        delay_s: Time between the beginnings of two fetches from one host.
        num_retries: Further attempts after one that failed for a passing reason.
        repos_per_shard: Entries of the list that make one shard.
        limits: Limits of one attempt.
    """

    num_workers: int = 8
    per_host: int = 4
    delay_s: float = 0.25
    num_retries: int = 3
    repos_per_shard: int = 200
    limits: FetchLimits = field(default_factory=FetchLimits)


def fetch_list(list_path: Path, out: Path, options: FetchOptions) -> Mapping[str, object]:
    """Fetch the notebooks of all repositories in a list; go on where an earlier run ended.

    Args:
        list_path: One address a line, or JSON lines with ``url``.
        out: Folder to fill with shards, ``repos.jsonl``, ``failed.jsonl`` and ``skipped.jsonl``.
        options: How to fetch.

    Returns:
        Counts: repositories, notebooks, skipped notebooks, and failures by reason.

    Raises:
        UsageError: If ``out`` holds something else.
        CorpusError: If the list is damaged or git is not installed.
        OSError: If the list cannot be read or ``out`` cannot be written.
    """
    folder = FetchFolder(out)
    list_hash = sha256_file(list_path)
    shard_size = options.repos_per_shard
    identity = {"format": _FORMAT, "list_sha256": list_hash, "repos_per_shard": shard_size}
    batches = enumerate(_batched(read_targets(list_path), shard_size))
    with folder.claimed(identity):
        try:
            asyncio.run(_Run(folder, options).run(batches))
        finally:
            counts = folder.write_tables()
    return counts


class _Run:
    """One run over a list. A batch is a task, and so is each of its repositories."""

    def __init__(self, folder: FetchFolder, options: FetchOptions) -> None:
        self._folder = folder
        self._options = options
        self._stop = threading.Event()
        self._executor = ThreadPoolExecutor(options.num_workers, thread_name_prefix="fetch")
        self._hosts = Hosts(per_host=options.per_host, delay_s=options.delay_s)

    async def run(self, batches: Iterable[tuple[int, Sequence[Entry]]]) -> None:
        """Work on the batches that are not done, some of them at the same time."""
        pending: set[asyncio.Task[None]] = set()
        try:
            for batch_idx, entries in batches:
                if self._folder.is_done(batch_idx):
                    continue
                pending.add(asyncio.create_task(self._fetch_batch(batch_idx, entries)))
                if len(pending) >= _OPEN_BATCHES:
                    pending = await _wait_for_one(pending)
            while pending:
                pending = await _wait_for_one(pending)
        finally:
            self._stop.set()
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
            self._executor.shutdown()

    async def _fetch_batch(self, batch_idx: int, entries: Sequence[Entry]) -> None:
        self._folder.begin(batch_idx)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._fetch_one(batch_idx, place, entry))
                    for place, entry in enumerate(entries)
                ]
        except BaseExceptionGroup as exc:
            raise exc.exceptions[0] from exc
        results = [task.result() for task in tasks]
        await self._in_thread(self._folder.finish, batch_idx, results)
        num_failed = sum(isinstance(result, Failure) for result in results)
        logger.info(
            "Batch %05d: %d repositories, %d failed.",
            batch_idx,
            len(results) - num_failed,
            num_failed,
        )

    async def _fetch_one(self, batch_idx: int, place: int, entry: Entry) -> Result | Failure:
        if isinstance(entry, Failure):
            return entry
        found = self._folder.find(batch_idx, place)
        if found is not None:
            return found
        retrying = AsyncRetrying(
            stop=stop_after_attempt(1 + self._options.num_retries),
            wait=wait_random_exponential(multiplier=_FIRST_BACKOFF_S, max=_MAX_BACKOFF_S),
            retry=retry_if_exception(_may_pass),
            reraise=True,
        )
        try:
            fetched: Fetched = await retrying(
                self._attempt, entry, self._folder.piece(batch_idx, place)
            )
        except GitError as exc:
            url = without_credentials(entry.url)
            logger.debug("%s: %s: %s", url, exc.reason, exc.detail)
            num_attempts = int(retrying.statistics["attempt_number"])
            return Failure(url=url, reason=exc.reason, detail=exc.detail, num_attempts=num_attempts)
        return await self._in_thread(self._folder.keep, batch_idx, place, fetched)

    async def _attempt(self, target: Target, piece_path: Path) -> Fetched:
        async with self._hosts.turn(target.host):
            try:
                return await self._in_thread(
                    fetch_repository, target, piece_path, self._options.limits, self._stop
                )
            except GitError as exc:
                if exc.reason == "stopped":
                    raise asyncio.CancelledError from exc
                if exc.reason == "rate_limited":
                    self._hosts.pause(target.host, _PAUSE_S)
                raise

    async def _in_thread(self, function: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, function, *arguments)


async def _wait_for_one(pending: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    return pending


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, GitError) and error.reason in TEMPORARY


def _batched(entries: Iterator[Entry], size: int) -> Iterator[Sequence[Entry]]:
    while batch := tuple(islice(entries, size)):
        yield batch
