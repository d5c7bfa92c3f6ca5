"""Guard against broken steps: skip a bad update, go back to a checkpoint when they keep coming."""

import logging
import math
import statistics
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["GuardConfig", "SpikeGuard"]

logger = logging.getLogger(__name__)

_LEAST_DEVIATION = 0.1  # nats; a window of nearly equal losses must not make every step a spike


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardConfig:
    """When a step is bad, and what then.

    A loss or gradient norm that is not finite is bad, and so is a loss far above the last ones.

    Attributes:
        window: Good steps whose losses are the measure; nothing is a spike before half of them.
        max_deviations: A loss is a spike when it exceeds their median by more than so many median
            absolute deviations (at least 0.1 nats each); 0 turns the measure off.
        max_bad_steps: Bad steps in a row that are skipped; at one more the run goes back to its
            newest checkpoint and on with the batches after them.
        max_rollbacks: Times a run may go back without getting past the place; at one more it ends.
    """

    window: int = 200
    max_deviations: float = 15.0
    max_bad_steps: int = 5
    max_rollbacks: int = 3


class SpikeGuard:
    """Judges steps. All ranks see the same figures, so they come to the same verdict.

    Args:
        config: The thresholds.
        losses: Of the last good steps, oldest first: a resumed run judges as before.
    """

    def __init__(self, config: GuardConfig, losses: Iterable[float] = ()) -> None:
        self._config = config
        self._losses = deque(losses, maxlen=config.window)
        self._num_bad = 0
        self.reason = ""

    @property
    def is_calm(self) -> bool:
        """Whether the last step was good, so that the weights are worth keeping."""
        return self._num_bad == 0

    @property
    def wants_rollback(self) -> bool:
        """Whether bad steps keep coming."""
        return self._num_bad > self._config.max_bad_steps

    def accept(self, loss: float, grad_norm: float, *, is_scaled: bool = False) -> bool:
        """Judge a step before its update.

        Args:
            loss: Of the step.
            grad_norm: Of its gradient.
            is_scaled: Whether the loss is scaled up: then a gradient that overflows only means
                that the scale is too high.

        Returns:
            Whether to change the weights; if not, ``reason`` says why.
        """
        self.reason = self._find_fault(loss, grad_norm)
        if not self.reason:
            self._num_bad = 0
            self._losses.append(loss)
            return True
        if not (is_scaled and math.isfinite(loss)):
            self._num_bad += 1
        return False

    def reset(self) -> None:
        """Begin anew after a rollback; the losses of good steps stay the measure."""
        self._num_bad = 0

    def _find_fault(self, loss: float, grad_norm: float) -> str:
        if not math.isfinite(loss):
            return f"its loss is {loss}"
        if not math.isfinite(grad_norm):
            return f"its gradient norm is {grad_norm}"
        if not self._config.max_deviations or len(self._losses) < self._config.window / 2:
            return ""
        median = statistics.median(self._losses)
        spread = statistics.median(abs(other - median) for other in self._losses)
        limit = median + self._config.max_deviations * max(spread, _LEAST_DEVIATION)
        return f"its loss {loss:.3f} is a spike above {limit:.3f}" if loss > limit else ""
