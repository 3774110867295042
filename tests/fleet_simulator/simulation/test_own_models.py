"""With mutual learning every device's own model is evaluated too: on its own clips, and on clips that no device has."""

import pytest

from fleet_simulator.experiment.file import load_experiment
from tests.support.simulated_fleet import simulate, write_experiment

FLEET = {"devices": 6, "split": "dirichlet", "alpha": 1.0, "held_out": 0.4, "local_models": True}


def run(tmp_path, bundle, own, rounds, name="run", workers=0, **sections):
    published = {"strategy": "fedmlac", "local": {"epochs": 2}, "aggregation": {"name": "lpa"}}
    sections |= {"fleet": FLEET, "rounds": {"count": rounds} | published}
    path = write_experiment(tmp_path / f"{name}.toml", bundle, **sections, model={"own": [str(own)]})
    return simulate(load_experiment(path), tmp_path / name, workers).devices


def mean(devices, figure):
    return sum(entry[figure] for entry in devices) / len(devices)


def test_own_models_know_the_clips_of_their_device_best(tmp_path, bundles):
    devices = run(tmp_path, bundles["ann3"], bundles["cnn1"], 12)
    assert [entry["device"] for entry in devices] == list(range(6))
    assert mean(devices, "own_trained") >= mean(devices, "own") > mean(devices, "own_test") > 0.4
    assert [entry["local_own"] for entry in devices] == [entry["own"] for entry in devices]


def test_without_own_models_the_local_ones_are_what_devices_would_upload_next(tmp_path, bundles):
    def played(name, rate):
        path = write_experiment(
            tmp_path / f"{name}.toml",
            bundles["ann3"],
            fleet=FLEET,
            rounds={"count": 2, "local": {"epochs": 2, "learning_rate": rate, "momentum": 0.0}},
        )
        return simulate(load_experiment(path), tmp_path / name, 0).devices

    still, trained = played("still", 1e-8), played("trained", 0.05)
    assert [entry["local_strangers"] for entry in still] == [entry["listening_strangers"] for entry in still]
    assert mean(trained, "local_own") > mean(trained, "global")
    assert mean(trained, "listening_own") == mean(trained, "global")


@pytest.mark.parametrize("own", ["ann3", "cnn1"])
def test_a_device_listens_with_what_its_held_out_clips_and_public_labels_speak_for(tmp_path, bundles, own):
    data = {"public": 0.2}
    plain = run(tmp_path, bundles["ann3"], bundles[own], 4, "plain", data=data)
    assert [entry["listening_own"] for entry in plain] == [entry["own"] for entry in plain]
    personal = run(tmp_path, bundles["ann3"], bundles[own], 4, "personal", data=data, personalisation={"name": "local"})
    assert mean(personal, "listening_own") == mean(personal, "personal") >= mean(plain, "listening_own")
    assert mean(personal, "listening_strangers") > mean(plain, "listening_strangers")


@pytest.mark.parametrize("workers", [1, 2])
def test_it_does_not_matter_who_judges(tmp_path, bundles, workers):
    here = run(tmp_path, bundles["ann3"], bundles["cnn1"], 1)
    assert run(tmp_path, bundles["ann3"], bundles["cnn1"], 1, "workers", workers) == here
