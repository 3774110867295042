"""Attackers and wrong labels do what the experiment says, and harm as one would expect."""

import numpy as np
import pytest

from aggregator_server.limits import SUSPICION
from fleet_simulator.errors import SimulationError
from fleet_simulator.experiment.faults import MOST_CLIPS, FaultsSection, attacked, attacking_devices, taught_labels
from fleet_simulator.experiment.file import load
from fleet_simulator.simulation.dealt_fleet import DealtFleet
from fleet_simulator.simulation.federation import Federation
from fleet_simulator.simulation.tasks import NO_OWN, Block
from fleet_simulator.simulation.virtual_devices import VirtualDevices
from tests.support.simulated_fleet import simulate, write_experiment


@pytest.mark.parametrize(
    ("attack", "sent"), [("sign_flip", [-1.0, 3.0]), ("scaling", [3.0, -1.0]), ("label_flip", [2.0, 0.0])]
)
def test_an_attacker_sends_what_its_attack_says(attack, sent):
    start, trained = np.array([1.0, 1.0], np.float32), np.array([2.0, 0.0], np.float32)
    faults = FaultsSection(0.2, attack, 2.0)
    assert attacked(faults, start, trained, np.random.default_rng(0)).tolist() == sent


def test_the_stated_share_of_labels_is_wrong_and_nobody_else_s():
    labels = np.random.default_rng(0).integers(5, size=10_000)
    owned = [slice(start, start + 100) for start in range(0, 9_000, 100)]
    taught = taught_labels(labels, owned, FaultsSection(wrong_labels=0.3), 5, 0)
    assert np.mean(taught[:9_000] != labels[:9_000]) == pytest.approx(0.3, abs=0.02)
    assert (taught[9_000:] == labels[9_000:]).all()
    assert set(taught) == set(range(5))  # and those beyond, by which the fleet's model is judged, are right
    flipped = taught_labels(labels, owned, FaultsSection(0.5, "label_flip"), 5, 0)
    attackers = attacking_devices(FaultsSection(0.5, "label_flip"), 90, 0)
    assert len(attackers) == 45
    for device, rows in enumerate(owned):
        assert (flipped[rows] == (4 - labels[rows] if device in attackers else labels[rows])).all()


@pytest.fixture
def played(tmp_path, bundles):
    """Play rounds of twenty devices in a folder; by default a fifth of them attack."""

    def play(folder, faults=None, **rounds):
        path = write_experiment(
            tmp_path / "e.toml",
            bundles["ann3"],
            rounds=rounds,
            fleet={"devices": 20, "split": "iid"},
            faults={"attackers": 0.2, "strength": 8.0} if faults is None else faults,
        )
        return simulate(load(path), tmp_path / folder).rounds

    return play


def test_attackers_ruin_the_mean_and_not_the_median(played):
    rules = ("weighted_mean", "median")
    mean, median = (played(rule, count=15, aggregation={"name": rule})[-1]["accuracy"] for rule in rules)
    assert median > mean + 0.2


def test_attackers_are_put_in_quarantine_as_an_aggregator_does_and_a_longer_run_remembers(played):
    rounds = played("whole", count=5, quarantine=True)
    assert [entry["devices"] for entry in rounds] == [20] * SUSPICION + [16] * (5 - SUSPICION)
    played("parts", count=2, quarantine=True)
    assert played("parts", count=5, quarantine=True)[-1] == rounds[-1]
    assert [entry["devices"] for entry in played("without", count=5)] == [20] * 5


def test_a_fleet_whose_devices_are_all_in_quarantine_is_an_error(tmp_path, bundles):
    experiment = load(write_experiment(tmp_path / "a.toml", bundles["ann3"], rounds={"quarantine": True}))
    federation = Federation(experiment, DealtFleet(experiment, tmp_path, in_memory=True), tmp_path)
    federation.state.suspicion[:] = SUSPICION
    with pytest.raises(SimulationError, match=r"all devices are in quarantine; set rounds\.quarantine to false"):
        federation.play(1)


def test_refused_uploads_leave_the_others_alone(played):
    """Weights that the aggregator refuses at the door count as nothing sent."""
    silent, refused = (
        played(attack, {"attackers": 0.34, "attack": attack, "strength": strength}, count=2)
        for attack, strength in (("silent", 1.0), ("scaling", 3.4e38))
    )
    assert silent == refused
    largest = attacked(FaultsSection(0.2, "scaling", 3.4e38), np.ones(2, np.float32), np.full(2, 9, np.float32), None)
    assert np.isfinite(largest).all()


def test_liars_about_their_clips_teach_wrong_labels_and_say_that_they_are_many(tmp_path, bundles):
    faults = {"attackers": 0.34, "attack": "false_clips"}
    rounds = {"count": 1, "aggregation": {"name": "weighted_mean", "clips_cap": 0.0}}
    path = write_experiment(tmp_path / "a.toml", bundles["ann3"], rounds=rounds, faults=faults)
    experiment = load(path)
    liars = attacking_devices(experiment.faults, 9, experiment.rounds.seed)
    fleet = DealtFleet(experiment, tmp_path, in_memory=True)
    devices = VirtualDevices(fleet.setup, fleet.shards)
    work = Federation(experiment, fleet, tmp_path).opened(1)
    block = Block(work, 0, tuple(range(9)), (NO_OWN,) * 9)
    clips = devices._clips(block)
    assert [clips[n] == MOST_CLIPS for n in range(9)] == [n in liars for n in range(9)]
    assert devices.train(block).updates[0].clips == int(clips.sum())
    labels = np.arange(6) % 4
    taught = taught_labels(np.tile(labels, 9), [slice(6 * n, 6 * n + 6) for n in range(9)], experiment.faults, 4, 5)
    for device in range(9):
        own = taught[6 * device : 6 * device + 6]
        assert (own == (3 - labels if device in liars else labels)).all()


def test_attackers_that_are_honest_first_change_nothing_until_they_attack(played):
    attack = {"attackers": 0.3, "attack": "scaling", "strength": 50.0, "honest_rounds": 2}
    mean = {"aggregation": {"name": "weighted_mean"}}
    honest, late = ([one["accuracy"] for one in played(str(len(faults)), faults, **mean)] for faults in ({}, attack))
    assert late[:2] == honest[:2]
    assert late[2] != honest[2]
