"""The one loop runs strategies that share no model, and fleets of two networks, as devices and aggregator do."""

import json

import numpy as np
import pytest

from aggregator_server.schemas import RoundRequest
from aggregator_server.strategies.plans import make_plan
from edge_client.learning.new_sounds import class_means
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_simulator.experiment.file import load
from fleet_simulator.runs.run_folder import STATE
from fleet_simulator.simulation.dealt_fleet import DealtFleet
from fleet_simulator.simulation.device_models import PROTOTYPES
from tests.support.simulated_fleet import refused, simulate, write_experiment

PUBLIC = {"public": 0.2}


def on_embeddings(path, **sections):
    """Write an experiment on a pretrained front end, for which no strategy is named."""
    rounds = {"local": {}} | sections.pop("rounds", {})
    data = PUBLIC | sections.pop("data", {})
    return load(write_experiment(path, find_bundle("base"), data=data, rounds=rounds, **sections))


def test_without_a_strategy_the_aggregator_s_recommendation_runs(tmp_path, bundles):
    embeddings = on_embeddings(tmp_path / "p.toml")
    assert embeddings.plan == make_plan(RoundRequest("prototypes", seed=5))
    networks = load(write_experiment(tmp_path / "w.toml", bundles["ann3"]))
    assert networks.strategy == "fedavg"
    other = {"own": [str(bundles["cnn1"])]}
    scores = load(write_experiment(tmp_path / "s.toml", bundles["ann3"], data=PUBLIC, model=other))
    assert scores.strategy == "zero_shot"


def test_the_fleet_s_prototypes_are_means_of_the_devices_clips_and_a_newcomer_is_tested(tmp_path):
    experiment = on_embeddings(tmp_path / "e.toml", rounds={"count": 2})
    found = simulate(experiment, tmp_path / "run")
    told = json.loads((tmp_path / "run" / "result.json").read_text())["about"]
    assert (told["strategy"], told["settings"]["rounds"]["strategy"]) == ("prototypes", "recommended")
    fleet = DealtFleet(experiment, tmp_path / "run")
    sent = FleetPrototypes.unpack((tmp_path / "run" / PROTOTYPES).read_bytes())
    assert sent.class_ids == fleet.shards.names
    features = fleet.first.public_set.features
    for row, mean in enumerate(sent.means):
        parts = []
        for device in range(fleet.shards.devices):
            rows = fleet.shards.rows(device)
            x = fleet.shards.features(rows) * np.float32(fleet.manifest.std) + np.float32(fleet.manifest.mean)
            parts.append(class_means(x, fleet.shards.labels(rows), [row])[0])
        spread = np.std(features, axis=0)
        assert np.abs((mean - np.mean(parts, axis=0)) / spread).max() < 0.5
    assert [entry["devices"] for entry in found.rounds] == [9, 9]
    assert found.rounds[-1]["accuracy"] > 0.9
    assert "loss" not in found.rounds[0]
    assert found.rounds[0]["samples"] == 0  # nobody trains


def test_prototypes_do_not_depend_on_workers_and_a_longer_run_goes_on(tmp_path):
    rounds = {"selection": {"name": "uniform", "fraction": 0.5}, "evaluate_every": 0}
    one = on_embeddings(tmp_path / "one.toml", rounds=rounds | {"count": 1})
    two = on_embeddings(tmp_path / "two.toml", rounds=rounds | {"count": 2})
    simulate(one, tmp_path / "run")
    simulate(two, tmp_path / "run", 2)
    simulate(two, tmp_path / "whole")
    for name in (STATE, "result.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_devices_listen_with_heads_that_know_the_fleet_s_sounds(tmp_path):
    fleet = {"devices": 4, "split": "dirichlet", "alpha": 0.2, "held_out": 0.4}
    experiment = on_embeddings(tmp_path / "e.toml", fleet=fleet, rounds={"count": 1}, baselines={"passes": 1})
    devices = simulate(experiment, tmp_path / "run").devices
    mean = {name: np.nanmean([np.nan if one[name] is None else one[name] for one in devices]) for name in devices[0]}
    assert mean["listening_strangers"] > mean["alone_strangers"] + 0.2  # of classes that a device has no clip of
    assert mean["guarded_strangers"] >= mean["alone_strangers"]
    assert {"public_own", "both_own", "global"} <= mean.keys()


def test_scores_alone_are_a_fleet_s_strategy_too(tmp_path, bundles):
    rounds = {"strategy": "zero_shot", "local": {"epochs": 2}}
    model = {"own": [str(bundles["ann3"]), str(bundles["cnn1"])]}
    path = write_experiment(tmp_path / "e.toml", bundles["ann3"], data=PUBLIC, rounds=rounds, model=model)
    rounds = simulate(load(path), tmp_path / "run").rounds
    assert rounds[-1]["accuracy"] > rounds[0]["accuracy"] * 0.9 > 0.4
    assert "confusion" not in rounds[-1]


@pytest.mark.parametrize(
    ("bundle", "sections", "says"),
    [
        ("ann3", {"rounds": {"strategy": "prototypes", "local": {}}}, ("[model]", "prototypes", "base")),
        ("base", {"rounds": {"local": {}}}, ("[rounds]", "prototypes", "[data] public")),
        ("base", {"rounds": {"local": {}}, "data": PUBLIC, "personalisation": {"name": "local"}}, ("own anyway",)),
        ("base", {"rounds": {"local": {}}, "data": PUBLIC, "faults": {"attackers": 0.1}}, ("[faults]", "sign_flip")),
        ("ann3", {"model": {"own": ["cnn1", "ann3"]}}, ("needs a public set", "[data] public")),
    ],
)
def test_what_a_strategy_needs_is_named(tmp_path, capsys, bundle, sections, says):
    refused(write_experiment(tmp_path / "e.toml", find_bundle(bundle), **sections), says, capsys)
