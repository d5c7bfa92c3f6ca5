"""The learning rate over a run."""

import pytest

from jupyt5_training.recipes import OptimizerConfig
from jupyt5_training.schedule import rate_factor


def test_inverse_square_root_warms_up_decays_and_cools_down() -> None:
    config = OptimizerConfig(warmup_steps=100, cooldown_steps=10)
    assert rate_factor(50, 1000, config) == pytest.approx(0.5)
    assert rate_factor(100, 1000, config) == pytest.approx(1.0)
    assert rate_factor(400, 1000, config) == pytest.approx(0.5)
    assert rate_factor(1000, 1000, config) == pytest.approx(0.1 * (100 / 1000) ** 0.5)


def test_cosine_is_half_a_wave() -> None:
    config = OptimizerConfig(schedule="cosine", warmup_steps=100)
    assert rate_factor(10, 1100, config) == pytest.approx(0.1)
    assert rate_factor(100, 1100, config) == pytest.approx(1.0)
    assert rate_factor(600, 1100, config) == pytest.approx(0.5)
    assert rate_factor(1100, 1100, config) == pytest.approx(0.0)


def test_constant_with_short_decays_comes_back_to_the_peak() -> None:
    config = OptimizerConfig(
        schedule="constant", warmup_steps=10, cooldown_steps=20, decay_every=100
    )
    rates = [rate_factor(step, 250, config) for step in range(1, 251)]
    assert rates[4] == 0.5
    assert set(rates[9:80]) == {1.0}
    assert rates[90] == 0.5  # step 91
    assert rates[99] == 0.05
    assert rates[100] == 1.0
    assert rates[199] == 0.05
    assert rates[229] == 1.0
    assert rates[249] == 0.05  # the run's own end


def test_a_constant_run_can_be_given_more_steps_at_any_point() -> None:
    config = OptimizerConfig(schedule="constant", warmup_steps=10, cooldown_steps=20)
    short = [rate_factor(step, 100, config) for step in range(1, 81)]
    assert short == [rate_factor(step, 5000, config) for step in range(1, 81)]
