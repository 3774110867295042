"""The simulator runs the strategy's own check and aggregate, on the documents and weights that devices would upload."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from aggregator_server.aggregation.contract import RoundResult
from aggregator_server.aggregation.rule import aggregate_weights
from aggregator_server.errors import MalformedUpdateError
from aggregator_server.strategies import weight_sharing
from aggregator_server.strategies.plans import strategies
from aggregator_server.strategies.strategy import sharing
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_simulator.errors import ExperimentError, SimulationError
from fleet_simulator.experiment import local_kinds
from fleet_simulator.experiment.file import load
from fleet_simulator.experiment.local_kinds import averages_blocks, machine_memory, require_memory
from tests.support.simulated_fleet import left_in, simulate, write_experiment

MEAN_OF_ALL = {"name": "weighted_mean", "clips_cap": 0.0}


@pytest.fixture
def install(monkeypatch):
    """Add a strategy to those that are known, for one test."""

    def add(strategy):
        monkeypatch.setitem(strategies(), strategy.name, strategy)

    return add


def one_more(inputs):
    """Leave the uploads alone and add 1 to every weight."""
    weights = {name: array + np.float32(1) for name, array in inputs.model.weights.items()}
    rounds = inputs.model.state.get("rounds", np.zeros(1, np.float32)) + 1
    none = {"consensus": None, "assignments": (), "details": {}}
    return RoundResult(public_set=inputs.public_set, weights=weights, state={"rounds": rounds}, **none)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_strategy_that_aggregates_in_its_own_way_is_what_runs(tmp_path, bundles, install, workers):
    install(sharing("odd", "fedavg", aggregate=one_more))
    experiment = load(write_experiment(tmp_path / "e.toml", bundles["ann3"], rounds={"strategy": "odd"}))
    simulate(experiment, tmp_path / "run", workers)
    weights = left_in(tmp_path / "run", "weights")
    for name, array in read_bundle(bundles["ann3"]).weights.items():
        np.testing.assert_array_equal(weights[name], array + np.float32(1) + np.float32(1) + np.float32(1))
    assert left_in(tmp_path / "run", "server")["rounds"].tolist() == [3.0]


def test_what_the_strategy_refuses_or_leaves_out_is_named(tmp_path, bundles, install):
    def refuse(_terms, update, _arrays):
        raise MalformedUpdateError(f"{update.clips} clips are odd")

    install(replace(sharing("refusing", "fedavg"), check=refuse))
    install(sharing("empty", "fedavg", aggregate=lambda inputs: replace(one_more(inputs), weights=None)))
    for name, error, says in (
        ("refusing", MalformedUpdateError, "clips are odd"),
        ("empty", SimulationError, "'empty' made no weights of 9 uploads"),
    ):
        path = write_experiment(tmp_path / f"{name}.toml", bundles["ann3"], rounds={"strategy": name})
        with pytest.raises(error, match=says):
            simulate(load(path), tmp_path / name)


def experiment_of(tmp_path, bundles, **rounds):
    return load(write_experiment(tmp_path / "e.toml", bundles["ann3"], rounds=rounds))


def test_blocks_are_averaged_only_where_the_project_s_own_function_takes_a_mean(tmp_path, bundles, install):
    combine = partial(weight_sharing.aggregate, combine=aggregate_weights)
    install(sharing("partial", "fedavg", aggregate=combine))
    install(replace(sharing("strict", "fedavg"), check=lambda *_: None))
    mean = {"aggregation": MEAN_OF_ALL}
    assert averages_blocks(experiment_of(tmp_path, bundles, **mean))
    assert averages_blocks(experiment_of(tmp_path, bundles, **mean | {"strategy": "fedopt"}))
    for other in (
        {"aggregation": {"name": "median"}},
        {"aggregation": {"name": "weighted_mean"}},  # no device counts more than three usual ones
        mean | {"strategy": "partial"},
        mean | {"strategy": "strict"},
    ):
        assert not averages_blocks(experiment_of(tmp_path, bundles, **other))


def test_uploads_that_do_not_fit_in_memory_are_refused_when_the_experiment_loads(tmp_path, bundles, monkeypatch):
    manifest = read_bundle(bundles["ann3"]).manifest
    width = sum(array.size for array in read_bundle(bundles["ann3"]).weights.values())

    def write(**rounds):
        fleet = {"devices": 1000}
        return write_experiment(tmp_path / "e.toml", bundles["ann3"], fleet=fleet, rounds=rounds)

    median = load(write(aggregation={"name": "median"}))
    require_memory(median, manifest, memory=4_000 * width)
    says = rf"'fedavg' with the rule 'median'.*1,000 devices x {width:,} weights.*at most 250, .*fraction = 0.25.*mean"
    with pytest.raises(ExperimentError, match=says):
        require_memory(median, manifest, memory=1_000 * width)
    monkeypatch.setattr(local_kinds, "machine_memory", lambda: 1_000 * width)
    with pytest.raises(ExperimentError, match=r"e\.toml, line \d+: \[rounds\] strategy = 'fedavg' with the rule"):
        load(write(aggregation={"name": "median"}))
    load(write(aggregation=MEAN_OF_ALL))
    load(write(aggregation={"name": "median"}, selection={"name": "uniform", "fraction": 0.25}))
    assert 2**26 < machine_memory() < 2**50
