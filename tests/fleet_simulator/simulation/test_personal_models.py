"""Devices judge the fleet's model, and their own, on clips that they never trained on, and keep the better."""

import json

import pytest

from fleet_simulator.errors import ExperimentError
from fleet_simulator.experiment.file import load
from tests.support.simulated_fleet import simulate, write_experiment

UNEQUAL = {"fleet": {"devices": 12, "split": "dirichlet", "alpha": 0.3, "held_out": 0.4}, "rounds": {"count": 4}}


def of(entries, figure):
    return sum(entry[figure] for entry in entries if entry[figure] is not None)


@pytest.mark.parametrize("settings", [{"name": "local"}, {"name": "group_balanced", "most_rounds": 3, "groups": 2}])
def test_personal_models_serve_devices_with_few_classes_better(tmp_path, bundles, settings):
    path = write_experiment(tmp_path / "e.toml", bundles["ann3"], **UNEQUAL, personalisation=settings)
    found = simulate(load(path), tmp_path / "run")
    assert len(found.devices) == 12
    assert of(found.devices, "personal") > of(found.devices, "global") + 0.3
    for entry in found.devices:
        assert entry["kept"] or entry["personal"] == entry["global"]
    if settings["name"] == "group_balanced":
        sizes = [[entry["clips"] for entry in found.devices if entry["group"] == group] for group in (0, 1)]
        assert max(sizes[0]) < min(sizes[1])
    document = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (document["rounds"], document["devices"]) == (found.rounds, found.devices)
    again = simulate(load(path), tmp_path / "workers", 2)
    assert (again.rounds, again.devices) == (found.rounds, found.devices)


def test_every_device_is_told_what_it_would_have_without_a_fleet(tmp_path, bundles):
    sections = UNEQUAL | {"data": {"public": 0.2}, "baselines": {"passes": 20}, "personalisation": {"name": "local"}}
    path = write_experiment(tmp_path / "e.toml", bundles["ann3"], **sections)
    found = simulate(load(path), tmp_path / "run").devices
    for entry in found:
        assert entry["listening_own"] == entry["personal"]
        assert len({entry["public_strangers"], *(one["public_strangers"] for one in found)}) < 13  # the same model
    # Dirichlet's devices have clips of few classes, which is what strangers' clips of the others are lost on.
    assert of(found, "alone_strangers") < of(found, "public_strangers") - 1 < of(found, "both_strangers")
    assert of(found, "alone_own") > of(found, "alone_strangers")
    without = load(write_experiment(tmp_path / "w.toml", bundles["ann3"], **UNEQUAL))
    bare = simulate(without, tmp_path / "bare").devices
    assert not any(name.startswith(("alone", "public", "both")) for name in bare[0])
    assert [entry["listening_own"] for entry in bare] == [entry["global"] for entry in bare]


def test_the_guard_refuses_what_attackers_made_and_takes_what_a_fleet_learned(tmp_path, bundles):
    def guarded(**more):
        sections = UNEQUAL | {"data": {"public": 0.2}, "baselines": {"passes": 20}} | more
        path = write_experiment(tmp_path / "e.toml", bundles["ann3"], **sections)
        return simulate(load(path), tmp_path / f"run {len(more)}").devices

    for found, kind in ((guarded(), "listening"), (guarded(faults={"attackers": 1.0, "attack": "sign_flip"}), "alone")):
        places = ("own", "strangers")
        as_expected = [
            all(entry[f"guarded_{place}"] == entry[f"{kind}_{place}"] for place in places) for entry in found
        ]
        assert sum(as_expected) > len(found) / 2


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"personalisation": {"name": "locall"}}, r"\[personalisation\].*'locall'.*group_balanced"),
        ({"personalisation": {"name": "local", "epoch": 3}}, r"\[personalisation\].*'epoch'.*epochs"),
        ({"personalisation": {"name": "local"}, "fleet": {"devices": 9}}, r"\[personalisation\].*held_out"),
        ({"baselines": {"passes": 9}, "fleet": {"devices": 9}}, r"\[baselines\].*held_out"),
        ({"personalisation": {"name": "group_balanced"}, "rounds": {"strategy": "fedmlac"}}, r"fedmlac.*'local'"),
    ],
)
def test_a_personalisation_that_cannot_be_run_is_named_with_the_way_out(tmp_path, bundles, sections, says):
    path = write_experiment(tmp_path / "e.toml", bundles["ann3"], **UNEQUAL | sections)
    with pytest.raises(ExperimentError, match=says):
        load(path)
