"""Server optimisers: algorithm 2 of Reddi et al. by hand, and a state that carries on only where it belongs."""

import numpy as np
import pytest

from aggregator_server.aggregation.server_optimisers import server_step
from aggregator_server.errors import AggregationError

PREVIOUS, COMBINED = np.array([1.0], np.float32), np.array([3.0], np.float32)  # the update is 2
SETTINGS = {"learning_rate": 0.5, "beta_1": 0.5, "beta_2": 0.75, "tau": 1.0}

# m = 0.5 * 0 + 0.5 * 2 = 1; v starts at tau^2 = 1 and d^2 = 4; the step is 0.5 m / (sqrt(v) + 1).
FIRST = {"adagrad": 1 + 4, "yogi": 1 + 0.25 * 4, "adam": 0.75 * 1 + 0.25 * 4}


@pytest.mark.parametrize(("name", "v"), FIRST.items())
def test_the_first_step_starts_from_tau_squared(name, v):
    moved, state = server_step(name, PREVIOUS, COMBINED, {}, **SETTINGS)
    np.testing.assert_allclose(moved, [1 + 0.5 * 1 / (np.sqrt(v) + 1)], rtol=1e-6)
    np.testing.assert_allclose(state[f"{name}.m"], [1.0])
    np.testing.assert_allclose(state[f"{name}.v"], [v])
    assert {array.dtype for array in (moved, *state.values())} == {np.dtype(np.float32)}


def test_the_second_step_carries_on_and_yogi_comes_down_when_updates_get_small():
    _, state = server_step("yogi", PREVIOUS, COMBINED, {}, **SETTINGS)
    moved, after = server_step("yogi", COMBINED, COMBINED + 1, state, **SETTINGS)
    m, v = 0.5 * 1 + 0.5 * 1, 2 - 0.25 * 1
    np.testing.assert_allclose(after["yogi.v"], [v])
    np.testing.assert_allclose(moved, [3 + 0.5 * m / (np.sqrt(v) + 1)], rtol=1e-6)


def test_a_state_of_another_optimiser_or_another_model_is_not_continued():
    first, _ = server_step("adam", PREVIOUS, COMBINED, {}, **SETTINGS)
    _, yogi = server_step("yogi", PREVIOUS, COMBINED, {}, **SETTINGS)
    wide = {"adam.m": np.ones(2, np.float32), "adam.v": np.ones(2, np.float32)}
    for state in (yogi, wide, {"adam.m": np.ones(1, np.float32)}):
        again, _ = server_step("adam", PREVIOUS, COMBINED, state, **SETTINGS)
        assert again.tobytes() == first.tobytes()


def test_an_optimiser_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(AggregationError, match=r"'sgd'.*none, adagrad, adam, yogi"):
        server_step("sgd", PREVIOUS, COMBINED, {}, **SETTINGS)
