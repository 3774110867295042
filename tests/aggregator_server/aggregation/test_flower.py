"""The rules that Flower has too give what Flower gives, on the same uploads."""

from functools import partial

import numpy as np
import pytest
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server.strategy import FedAdagrad, FedAdam, FedYogi
from flwr.server.strategy.aggregate import aggregate_krum, aggregate_median, aggregate_trimmed_avg

from aggregator_server.aggregation import Layout, aggregate_weights, stack_updates
from fleet_protocol.bundle.bundle_file import Layer
from fleet_protocol.messages.rest import Choice

SHAPES = {"conv.kernel": (3, 3, 1, 16), "conv.bias": (16,), "head.kernel": (64, 12), "head.bias": (12,)}
LAYOUT = Layout((Layer("conv", ("conv.kernel", "conv.bias")), Layer("head", ("head.kernel", "head.bias"))), SHAPES)


def draw(seed, devices=23):
    """(fleet's weights before, devices' weights, sizes): devices near the fleet's, two of them far off."""
    rng = np.random.default_rng(seed)
    before = {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    spread = np.where(np.arange(devices) % 11 == 5, 1.0, 0.02)
    after = [
        {name: (array + rng.normal(scale=scale, size=array.shape)).astype(np.float32) for name, array in before.items()}
        for scale in spread
    ]
    return before, after, rng.integers(1, 400, devices)


def ours(before, after, sizes, name, state=None, **settings):
    uploads = stack_updates(LAYOUT, {f"{i:03d}": (lambda arrays=arrays: arrays) for i, arrays in enumerate(after)})
    weights, state, _ = aggregate_weights(
        Choice(name, {"clips_cap": 0.0} | settings), uploads, sizes.astype(float), before, state or {}
    )
    return weights, state


def results(after, sizes):
    return [([arrays[name] for name in SHAPES], int(size)) for arrays, size in zip(after, sizes, strict=True)]


def assert_equal(weights, flower, **tolerance):
    for name, theirs in zip(SHAPES, flower, strict=True):
        np.testing.assert_allclose(weights[name], theirs, **({"rtol": 1e-5, "atol": 1e-6} | tolerance), err_msg=name)


@pytest.mark.parametrize("devices", [1, 2, 22, 23])
def test_median_and_trimmed_mean(devices):
    before, after, sizes = draw(3, devices)
    assert_equal(ours(before, after, sizes, "median")[0], aggregate_median(results(after, sizes)))
    for trim in (0.0, 0.1, 0.3, 0.45):
        flower = aggregate_trimmed_avg(results(after, sizes), trim)
        assert_equal(ours(before, after, sizes, "trimmed_mean", trim=trim)[0], flower)


@pytest.mark.parametrize(("seed", "liars", "kept"), [(5, 0, 5), (6, 2, 12), (7, 6, 1)])
def test_krum_and_multi_krum_where_flower_weighs_all_alike(seed, liars, kept):
    before, after, sizes = draw(seed)
    flower = aggregate_krum(results(after, sizes), liars, 0)
    assert_equal(ours(before, after, sizes, "krum", byzantine=liars / 23)[0], flower, rtol=0, atol=0)
    flower = aggregate_krum(results(after, np.ones_like(sizes)), liars, kept)
    assert_equal(ours(before, after, sizes, "multi_krum", byzantine=liars / 23, keep=kept / 23)[0], flower)


ETA, TAU = 0.05, 1e-3
BETAS = {"beta_1": 0.9, "beta_2": 0.99}
FLOWER = {"adam": partial(FedAdam, **BETAS), "yogi": partial(FedYogi, **BETAS), "adagrad": FedAdagrad}


def rate(name, turn):
    """Flower corrects Adam's rate for the moments' start, one round ahead; the paper's algorithm does not."""
    return ETA * (1 - 0.99 ** (turn + 1)) ** 0.5 / (1 - 0.9 ** (turn + 1)) if name == "adam" else ETA


@pytest.mark.parametrize("name", FLOWER)
def test_server_optimisers_over_several_rounds(name):
    before, _, _ = draw(8)
    start = ndarrays_to_parameters([before[array] for array in SHAPES])
    strategy = FLOWER[name](initial_parameters=start, eta=ETA, tau=TAU)
    beta_1 = 0.0 if name == "adagrad" else 0.9  # Flower's Adagrad has no memory of the mean update
    state = {f"{name}.{moment}": np.zeros(LAYOUT.width, np.float32) for moment in "mv"}  # Flower starts from 0
    for turn in range(1, 5):
        _, after, sizes = draw(8 + turn, 7)
        replies = [
            (None, FitRes(Status(Code.OK, ""), ndarrays_to_parameters(arrays), size, {}))
            for arrays, size in results(after, sizes)
        ]
        parameters, _ = strategy.aggregate_fit(turn, replies, [])
        optimiser = {"server_optimiser": name, "server_learning_rate": rate(name, turn), "server_tau": TAU}
        optimiser |= {"server_beta_1": beta_1, "server_beta_2": 0.99}
        before, state = ours(before, after, sizes, "weighted_mean", state, **optimiser)
        assert_equal(before, parameters_to_ndarrays(parameters), rtol=1e-4, atol=1e-5)
