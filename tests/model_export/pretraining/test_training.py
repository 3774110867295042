"""The learning rate of a pretraining."""

import pytest

from model_export.pretraining.training import Options


def test_the_rate_falls_over_the_last_steps_and_is_the_same_before_however_long_the_run():
    short, long = (Options(steps=steps, warm_up=10, decay=100, learning_rate=1.0) for steps in (300, 500))
    assert [short.rate(step) for step in (0, 9, 199)] == [long.rate(step) for step in (0, 9, 199)] == [0.1, 1.0, 1.0]
    assert long.rate(399) == 1.0
    assert short.rate(250) == long.rate(450) == pytest.approx(0.5)
    assert Options(steps=100, learning_rate=1.0, warm_up=0).rate(50) == pytest.approx(0.5)
