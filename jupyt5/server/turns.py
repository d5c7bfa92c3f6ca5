"""Whose turn it is: a few slots, given to the users who wait in rotation."""

import asyncio
import time
from collections import Counter, deque

__all__ = ["FairTurns"]

_WEIGHT_OF_LATEST = 0.2  # of the running mean of service times


class FairTurns:
    """Gives slots to the waiting user who holds fewest, then to whoever waited longest for one.

    So a user who asks for many cells at once delays somebody who asks for one by one turn, not by
    all of them. Each user's own requests keep their order. Used from the event loop only.

    Args:
        num_slots: Turns taken at the same time.
    """

    def __init__(self, num_slots: int) -> None:
        self._num_slots = num_slots
        self._taken: Counter[str] = Counter()
        self._began: dict[str, deque[float]] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # the next user first
        self._mean_s = 1.0

    @property
    def num_waiting(self) -> int:
        """Requests that wait for their turn."""
        return sum(map(len, self._waiting.values()))

    @property
    def is_free(self) -> bool:
        """Whether whoever asks now has a turn at once."""
        return self._taken.total() < self._num_slots

    @property
    def expected_wait_s(self) -> float:
        """Seconds until somebody who joins now has a turn, judged by the latest turns."""
        return self._mean_s * (self.num_waiting + 1) / self._num_slots

    async def take(self, user: str) -> None:
        """Wait for a turn; whoever got one gives it back with ``end``."""
        if self.is_free:
            self._give(user)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(user, turn)
            else:  # it was given in the moment in which it was given up
                self.end(user)
            raise

    def end(self, user: str) -> None:
        """Give a turn of this user back."""
        lasted_s = time.monotonic() - self._began[user].popleft()
        self._mean_s += _WEIGHT_OF_LATEST * (lasted_s - self._mean_s)
        self._taken[user] -= 1
        if not self._taken[user]:
            del self._taken[user], self._began[user]
        self._call_next()

    def _call_next(self) -> None:
        while self._waiting:
            user = min(self._waiting, key=lambda name: self._taken[name])  # the first of equals
            turns = self._waiting.pop(user)
            turn = turns.popleft()
            if turns:
                self._waiting[user] = turns  # last: the others come first now
            if not turn.cancelled():  # given up, and not yet out of the queue
                self._give(user)
                turn.set_result(None)
                return

    def _give(self, user: str) -> None:
        self._taken[user] += 1
        self._began.setdefault(user, deque()).append(time.monotonic())

    def _forget(self, user: str, turn: "asyncio.Future[None]") -> None:
        turns = self._waiting.get(user, deque())
        if turn in turns:
            turns.remove(turn)
        if not turns:
            self._waiting.pop(user, None)
