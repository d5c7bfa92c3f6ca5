"""What a run shows of itself while it goes on."""

import logging
import sys
import time

from tqdm import tqdm

from jupyt5_training.checkpoints import Progress

__all__ = ["StepBar"]

logger = logging.getLogger(__name__)

_LOG_EVERY_S = 30.0


class StepBar:
    """A progress bar on a terminal; elsewhere a log line every 30 s; nothing on other ranks.

    Args:
        name: Of the recipe.
        num_steps: Of the whole run.
        progress: Where it begins.
        is_main: Whether this is rank 0.
    """

    def __init__(self, name: str, num_steps: int, progress: Progress, *, is_main: bool) -> None:
        self._bar = tqdm(
            total=num_steps,
            initial=progress.step,
            desc=name,
            unit="step",
            dynamic_ncols=True,
            disable=not (is_main and sys.stderr.isatty()),
        )
        self._is_logged = is_main and self._bar.disable
        self._last_s = time.monotonic()
        self._last = progress

    def __enter__(self) -> "StepBar":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._bar.close()

    def update(self, progress: Progress, loss: float) -> None:
        """Show the step that was just made."""
        self._bar.update(progress.step - self._bar.n)
        self._bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
        elapsed_s = time.monotonic() - self._last_s
        if self._is_logged and elapsed_s >= _LOG_EVERY_S:
            rate = (progress.tokens_seen - self._last.tokens_seen) / elapsed_s
            logger.info("step %d: loss %.3f, %.0f tokens/s", progress.step, loss, rate)
            self._last_s, self._last = time.monotonic(), progress
