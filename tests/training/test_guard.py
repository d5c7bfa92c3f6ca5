"""What counts as a bad step, and what follows."""

import math

import pytest

from jupyt5_training.guard import GuardConfig, SpikeGuard

CONFIG = GuardConfig(window=20, max_deviations=10, max_bad_steps=2)


def warm_guard() -> SpikeGuard:
    return SpikeGuard(CONFIG, [3.0 + 0.1 * (step % 3) for step in range(20)])


@pytest.mark.parametrize(("loss", "norm"), [(math.nan, 1.0), (3.0, math.inf), (5.0, 1.0)])
def test_bad_steps_are_refused_and_named(loss: float, norm: float) -> None:
    guard = warm_guard()
    assert guard.accept(3.1, 1.0)
    assert guard.is_calm
    assert not guard.accept(loss, norm)
    assert guard.reason
    assert not guard.is_calm


def test_a_rollback_is_wanted_after_so_many_in_a_row() -> None:
    guard = warm_guard()
    for _ in range(2):
        assert not guard.accept(math.nan, 1.0)
    assert not guard.wants_rollback
    assert guard.accept(3.0, 1.0)  # good again: counting begins anew
    for _ in range(3):
        guard.accept(9.0, 1.0)
    assert guard.wants_rollback
    guard.reset()
    assert guard.is_calm
    assert not guard.accept(9.0, 1.0)  # the measure has stayed


def test_nothing_is_a_spike_before_there_is_a_measure() -> None:
    guard = SpikeGuard(CONFIG)
    assert all(guard.accept(loss, 1.0) for loss in (9.0, 30.0, 3.0))
    off = SpikeGuard(GuardConfig(window=20, max_deviations=0), [3.0] * 20)
    assert off.accept(30.0, 1.0)


def test_overflow_of_a_scaled_loss_is_no_bad_step() -> None:
    guard = warm_guard()
    for _ in range(9):
        assert not guard.accept(3.0, math.inf, is_scaled=True)
    assert guard.is_calm
    assert not guard.accept(math.nan, math.inf, is_scaled=True)
    assert not guard.is_calm
