"""Virtual users with models and labels of their own: what real devices and a real aggregator make of the same clips."""

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from aggregator_server.fleet.enrolment import enrol
from aggregator_server.rounds.devices.work import acknowledge, next_work
from aggregator_server.rounds.lifecycle import advance
from aggregator_server.rounds.opening import open_round
from aggregator_server.rounds.publishing import publish_public_set
from aggregator_server.schemas import RoundRequest
from aggregator_server.store.opening import open_store
from edge_client.learning.rounds.client_update import RoundContext
from edge_client.learning.rounds.score_sharing import ScoreSharing
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.messages.public_set import PublicSet, unpack_consensus
from fleet_protocol.messages.rest import Enrolment, Learned, to_json
from fleet_protocol.numbers.tensors import pack
from fleet_simulator.cli import main
from fleet_simulator.errors import CorpusError, DivergedError, RunFolderError
from fleet_simulator.experiment.faults import FaultsSection, poisoned
from fleet_simulator.experiment.file import load
from fleet_simulator.partition.zero_shot_clips import UserClips
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.runs.run_folder import STATE
from fleet_simulator.simulation.federation import Federation
from fleet_simulator.simulation.run import run as run_experiment
from fleet_simulator.simulation.users import Users
from tests.support.core_fleet import accept
from tests.support.simulated_fleet import Progress, refused, write_toml

LOCAL = {"epochs": 2, "impression_steps": 10, "impressions": 8, "augmented_copies": 1}
COPIES = {"source": "log_mel", "path": "archive.zip", "clips": 10_000, "classes": 10, "noise": 2.0, "variants": 3}
WORDS = [f"class-{number:02d}" for number in range(6)]


def write(path: Path, bundles, *, users=None, **sections) -> Path:
    """Write an experiment: two users meet a new sound in round 2; a section's keys go over these."""
    document = {
        "data": {"source": "synthetic", "clips": 900, "classes": 6, "speakers": 60, "noise": 0.3},
        "rounds": {"count": 3, "strategy": "zero_shot", "seed": 3, "local": LOCAL},
        "zero_shot": {"public": 12, "clips": [12, 16]},
    }
    return write_toml(path, document, sections, users or standard_users(bundles))


def standard_users(bundles):
    new, changed = {"round": 2, "label": WORDS[4], "clips": 20}, {"round": 3, "bundle": str(bundles["cnn1"])}
    return [
        {"bundle": str(bundles["ann3"]), "labels": WORDS[:2], "events": [new]},
        {"bundle": str(bundles["cnn1"]), "labels": WORDS[1:3], "events": [new]},
        {"bundle": str(bundles["ann3"]), "labels": WORDS[2:4], "events": [changed]},
    ]


def run(path: Path, folder: Path, workers: int = 1, **changes):
    return run_experiment(load(path), folder, workers, Progress(), **changes).rounds


class RealFleet:
    """The aggregator's core with its database, and for each user a device's own code from round to round."""

    def __init__(self, folder, simulation):
        self.store, self.users, self.experiment = open_store(folder), simulation.devices.users, simulation.experiment
        with self.store.blobs.receive() as incoming:
            incoming.write(simulation.state.fleet.public_set.pack())
            publish_public_set(self.store, incoming)
        self.models, self.maps = [], []
        for user in self.users:
            bundle = read_bundle(user.section.bundle)
            features = bundle.manifest.feature_settings.to_json()
            message = Enrolment(
                device_id=user.device_id,
                secret=user.device_id + "s" * 8,
                name=f"user {user.number}",
                architecture="cnn",
                features=features,
                labels=user.section.labels,
            )
            enrol(self.store, message, now=0.0)
            self.models.append(ModelRuntime(bundle))
            self.maps.append(LabelMap(bundle.manifest.capacity))

    def job(self, user, now):
        work = next_work(self.store, user.device_id, now)
        public_set = PublicSet.unpack(self.store.blobs.read(work.public_set))
        consensus = None if work.consensus is None else unpack_consensus(self.store.blobs.read(work.consensus))[0]
        return ScoreSharing(
            self.models[user.number], self.maps[user.number], work, RoundContext(public_set, consensus), user.device_id
        )

    def play(self, round_id, now):
        experiment = self.experiment
        request = RoundRequest("zero_shot", settings=dict(experiment.rounds.local), seed=experiment.rounds.seed)
        for user in self.users:
            self.store.note_seen(user.device_id, now)
        assert open_round(self.store, request, now) == round_id
        trained = {}
        for user in self.users:
            job, drawn = self.job(user, now + 1), user.clips.of_round(user.number, round_id)
            job.take_labels(list(drawn))
            update, arrays = job.contribute(user.to_train_on(job, drawn), share_names=False)
            trained[user.number], self.maps[user.number] = job.model.get_weights(), job.label_map
            with self.store.blobs.receive() as incoming:
                incoming.write(pack(arrays, to_json(update)))
                accept(self.store, round_id, user.device_id, incoming, now + 2)
        assert advance(self.store, now + 3) == round_id
        for user in self.users:
            job = self.job(user, now + 4)
            metrics = job.apply_result({info.class_id for info in job.work.classes})
            self.maps[user.number] = job.label_map
            self.models[user.number].set_weights(trained[user.number])
            acknowledge(self.store, user.device_id, Learned(round_id, metrics))
        return job


def test_rounds_are_what_devices_and_an_aggregator_with_its_database_make_of_the_same_clips(tmp_path, bundles):
    experiment = load(write(tmp_path / "e.toml", bundles))
    with ThreadPoolExecutor(2) as threads:
        simulation = Federation(experiment, Users(experiment, Inputs(), threads), tmp_path)
        real = RealFleet(tmp_path / "real", simulation)
        for round_id in (1, 2):
            entry = simulation.play(round_id)
            last = real.play(round_id, 100.0 * round_id)
            assert simulation.state.fleet.public_set.pack() == last.context.public_set.pack()
            assert simulation.state.fleet.consensus.tobytes() == last.context.consensus.tobytes()
            assert [user.label_map for user in simulation.devices.users] == real.maps
    assert {item["class_id"] for item in entry["reports"]} == {"c4"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory, bundles):
    """A folder with the experiment, and its run."""
    folder = tmp_path_factory.mktemp("users")
    return folder, run(write(folder / "e.toml", bundles), folder / "run")


def test_a_longer_run_and_more_workers_come_to_the_same_bytes(tmp_path, bundles, whole):
    folder, rounds = whole
    short = run(write(tmp_path / "e.toml", bundles, rounds={"count": 1}), tmp_path / "run")
    longer = run(folder / "e.toml", tmp_path / "run", 3)
    assert short[0]["users"][0].keys() == rounds[0]["users"][0].keys()
    assert longer[0] == rounds[0]
    assert longer[1:] == rounds[1:]
    for name in (STATE, "result.json"):
        assert (tmp_path / "run" / name).read_bytes() == (folder / "run" / name).read_bytes()
    with pytest.raises(RunFolderError, match=r"another experiment.*--output"):
        run(write(tmp_path / "e.toml", bundles, zero_shot={"clips": [5, 6]}), tmp_path / "run")


def test_users_who_hold_clips_out_refuse_results_that_are_worse_and_go_on_from_where_they_were(tmp_path, bundles):
    """The fleet's scores are distilled in such large steps that nothing is left of a model."""
    local = LOCAL | {"labels": False, "distill_epochs": 4, "distill_learning_rate": 0.5}

    def played(folder, guard, count=3):
        sections = {"rounds": {"local": local, "count": count}, "zero_shot": {"held_out": 0.3, "guard": guard}}
        return run(write(tmp_path / f"{folder}.toml", bundles, **sections), tmp_path / folder)

    guarded, free = played("guarded", True), played("free", False)
    users = [user for entry in guarded for user in entry["users"]]
    assert sum(user["kept_own"] for user in users) > len(users) / 2
    assert not any(user["kept_own"] for entry in free for user in entry["users"])
    listening = [
        np.mean([user["own_before" if user["kept_own"] else "own_after"] for user in entry[-1]["users"]])
        for entry in (guarded, free)
    ]
    assert listening[0] > listening[1] + 20
    played("again", True, count=1)
    assert played("again", True) == guarded
    assert (tmp_path / "again" / STATE).read_bytes() == (tmp_path / "guarded" / STATE).read_bytes()


def test_new_clips_arrive_when_the_experiment_says_and_are_found_to_be_one_class(whole):
    folder, rounds = whole
    assert json.loads((folder / "run" / "result.json").read_text())["rounds"] == rounds
    assert rounds[1]["arrivals"] == [{"user": n, "label": WORDS[4], "clips": 20} for n in (1, 2)]
    assert rounds[1]["reports"] == [{"user": n, "label": WORDS[4], "class_id": "c4"} for n in (1, 2)]
    assert rounds[0]["reports"] == rounds[2]["reports"] == []
    # The third user gets another model in round 3, and keeps its labels and its classes.
    assert [entry["users"][2]["architecture"] for entry in rounds] == ["ann3", "ann3", "cnn1"]
    known = {
        user["user"]: [(one["class_id"], one["heard"]) for one in user["new_classes"]] for user in rounds[2]["users"]
    }
    assert known == {1: [("c4", True)], 2: [("c4", True)], 3: [("c4", False)]}


@pytest.mark.parametrize("by_speaker", [True, False])
def test_no_speaker_is_in_two_parts_unless_the_experiment_says_so(tmp_path, bundles, by_speaker):
    experiment = load(write(tmp_path / "e.toml", bundles, zero_shot={"by_speaker": by_speaker}))
    manifest = read_bundle(experiment.users[0].bundle).manifest
    corpus = Inputs().corpus(experiment.data, manifest, experiment.rounds.seed)
    clips = UserClips(experiment, corpus, manifest)
    parts = [np.concatenate([stock.rows for stock in stocks.values()]) for stocks in clips.stocks]
    parts.append(np.concatenate(list(clips.test.values())))
    for one, other in combinations(parts, 2):
        assert not set(one) & set(other)
        assert bool(set(corpus.speakers[one]) & set(corpus.speakers[other])) != by_speaker


@pytest.mark.parametrize("names", [("impressions", "profiles"), ("prototypes",)])
def test_a_poisoned_description_is_another_class_s(names):
    rows = np.arange(3, dtype=np.float32)[:, None, None] * np.ones((3, 5, 4), np.float32)
    arrays = {"scores": np.ones((4, 2), np.float32)} | dict.fromkeys(names, rows)
    sent = poisoned(FaultsSection(1.0, "poisoned_impressions"), arrays, 2, np.random.default_rng(0))
    noise = poisoned(FaultsSection(1.0, "noise"), arrays, 2, np.random.default_rng(0))
    assert sent["scores"] is arrays["scores"]
    described = {value for name in names for value in np.unique(sent[name][2]).tolist()}
    assert described in ({0.0}, {1.0})  # all arrays by the same class
    for name in names:
        np.testing.assert_array_equal(sent[name][:2], rows[:2])
        assert np.std(noise[name][2]) == pytest.approx(2.0, rel=0.5)
    assert rows[2].max() == rows[2].min() == 2.0


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"fleet": {"devices": 3}}, ("[fleet]", "'zero_shot'", "[[users]]")),
        ({"zero_shot": {"clips": [5]}}, ("[zero_shot]", "clips", "[5]", "smallest and a largest")),
        ({"data": {"public": 0.1}}, ("[data]", "public", "0.1", "[zero_shot] public")),
        ({"rounds": {"strategy": "fedavg", "local": {}}}, ("[rounds]", "'fedavg'", "[[users]]", "[model]")),
        ({"rounds": {"selection": {"name": "uniform"}}}, ("[rounds]", "selection", "every round")),
        ({"faults": {"attackers": 0.3, "attack": "scaling"}}, ("[faults]", "'scaling'", "poisoned_impressions")),
        ({"faults": {"wrong_labels": 0.3}}, ("[faults]", "wrong_labels", "0.3")),
        ({"data": COPIES}, ("variants = 3: ", "augmented_copies")),
    ],
)
def test_a_wrong_key_or_value_is_named_with_the_way_out(tmp_path, bundles, sections, says, capsys):
    refused(write(tmp_path / "e.toml", bundles, **sections), says, capsys)


@pytest.mark.parametrize(
    ("user", "says"),
    [
        ({"label": "x"}, ("[users 2]", "'label'", "labels")),
        ({"bundle": "nowhere.auricle"}, ("[users 2]", "nowhere.auricle", "auricle-export build")),
        ({"events": [{"round": 0, "label": "x", "clips": 1}]}, ("[users.events 1 of user 2]", "round", "0")),
        ({"events": [{"round": 1}]}, ("[users.events 1 of user 2]", "label", "'bundle'")),
    ],
)
def test_a_wrong_user_is_named_with_the_way_out(tmp_path, bundles, user, says, capsys):
    users = standard_users(bundles)
    users[1] |= user
    refused(write(tmp_path / "e.toml", bundles, users=users), says, capsys)


def test_users_and_clips_that_are_not_there_are_named(tmp_path, bundles, capsys):
    (tmp_path / "e.toml").write_text("[data]\nsource = 'synthetic'\n[rounds]\ncount = 1\nstrategy = 'zero_shot'\n")
    assert main(["run", str(tmp_path / "e.toml")]) == 1
    assert "[[users]] is missing" in capsys.readouterr().err
    path = write(tmp_path / "f.toml", bundles, data={"speakers": 3})
    with pytest.raises(CorpusError, match=r"would get no clip of 'class-0\d'"):
        run(path, tmp_path / "f")
    path = write(tmp_path / "g.toml", bundles)
    assert main(["run", str(path), "--ray"]) == 1
    assert "leave --ray out" in capsys.readouterr().err


def test_a_training_that_diverges_names_the_user_and_the_setting(tmp_path, bundles):
    local = LOCAL | {"learning_rate": 10.0, "epochs": 50}
    path = write(tmp_path / "e.toml", bundles, rounds={"local": local}, data={"noise": 9.0})
    with pytest.raises(DivergedError, match=r"user \d: round \d: the training diverged .*learning_rate, now 10"):
        run(path, tmp_path / "run")
