"""An experiment file is checked in full before anything starts, and says what the aggregator's requests say."""

import pytest

from aggregator_server.schemas import RoundRequest
from aggregator_server.strategies.plans import make_plan
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.messages.rest import Choice
from fleet_simulator.errors import ExperimentError
from fleet_simulator.experiment.file import load
from tests.support.simulated_fleet import refused, write_experiment


def test_a_round_is_planned_as_the_aggregator_plans_it(tmp_path, bundles):
    rounds = {
        "strategy": "fedopt",
        "seed": 7,
        "local": {"epochs": 2, "learning_rate": 1},
        "aggregation": {"server_learning_rate": 0.03},
        "selection": {"name": "dynamic", "fraction": 0.5},
    }
    path = write_experiment(tmp_path / "e.toml", bundles["ann3"], rounds=rounds)
    request = RoundRequest(
        "fedopt",
        settings={"epochs": 2, "learning_rate": 1},
        aggregation={"server_learning_rate": 0.03},
        seed=7,
        selection=Choice("dynamic", {"fraction": 0.5}),
    )
    assert load(path).plan == make_plan(request)


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"data": {"source": "radio"}}, ("[data]", "source", "'radio'", "speech_commands")),
        ({"data": {"test": 1.5}}, ("[data]", "test", "1.5", "below 1")),
        ({"fleet": {"device": 3}}, ("[fleet]", "'device'", "devices")),
        ({"fleet": {"split": "fair"}}, ("[fleet]", "split", "'fair'", "dirichlet")),
        ({"model": {"bundle": "nowhere.auricle"}}, ("[model]", "nowhere.auricle", "auricle-export build")),
        ({"model": {"bundle": "bass"}}, ("line 12: [model] bundle", "no ready bundle is called 'bass'", "base_hidden")),
        ({"model": {"own": ["cnn1", "bass"]}}, ("line 13: [model] own", "no ready bundle is called 'bass'")),
        ({"rounds": {"strategy": "fedwow"}}, ("[rounds]", "'fedwow'", "fedprox")),
        ({"rounds": {"local": {"epoch": 1}}}, ("[rounds]", "'epoch'", "epochs")),
        ({"rounds": {"aggregation": {"name": "mode"}}}, ("[rounds]", "'mode'", "krum")),
        ({"rounds": {"selection": {"fraction": 0.5}}}, ("[rounds]", "selection", "name")),
        ({"faults": {"attack": "lie"}}, ("[faults]", "attack", "'lie'", "sign_flip")),
        ({"rounds": {"strategy": "zero_shot", "local": {}}}, ("[rounds]", "'zero_shot'", "[data] public")),
    ],
)
def test_a_wrong_key_or_value_is_named_with_the_way_out(tmp_path, bundles, sections, says, capsys):
    refused(write_experiment(tmp_path / "e.toml", bundles["ann3"], **sections), says, capsys)


def test_ready_bundles_are_found_by_their_names(tmp_path):
    model = {"bundle": "cnn2", "own": ["cnn1", "cnn3"]}
    rounds = {"strategy": "fedmlac"}
    found = load(write_experiment(tmp_path / "e.toml", tmp_path, model=model, rounds=rounds)).model
    assert (found.bundle, found.own) == (find_bundle("cnn2"), (find_bundle("cnn1"), find_bundle("cnn3")))


def test_a_missing_file_and_a_missing_section_are_named(tmp_path):
    with pytest.raises(ExperimentError, match=r"nothing\.toml"):
        load(tmp_path / "nothing.toml")
    (tmp_path / "e.toml").write_text("[data]\nsource = 'synthetic'\n")
    with pytest.raises(ExperimentError, match=r"\[fleet\] is missing"):
        load(tmp_path / "e.toml")
