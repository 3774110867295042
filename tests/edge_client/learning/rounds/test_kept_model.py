"""With which model a device listens after a round: training processes on real models, clips and files."""

import dataclasses
import json

import numpy as np
import pytest

from edge_client.daemon.listening_loop import load_listening
from edge_client.features.front_end import open_front_end
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.feature_settings import PRESETS
from fleet_protocol.messages.rest import ClassBacking, ClassInfo, Learned, parse
from fleet_protocol.numbers.tensors import pack
from tests.support.round_work import work_of
from tests.support.sounds import melody, public_set_of, write_clips
from tests.support.taught_device import Device

pytestmark = pytest.mark.slow

SETTINGS = {"epochs": 12, "augmented_copies": 1, "impressions": 4, "impression_steps": 10}
KNOWN = (ClassInfo("yes", "yes"), ClassInfo("no", "no"), ClassInfo("up", "up"))
KETTLE = ClassInfo("c3", "kettle", 1)


class Member(Device):
    """A device with clips of `yes` and `no` in a fleet that also knows `up`."""

    def __init__(self, folder, bundle, settings, **sections):
        super().__init__(folder, bundle, **sections)
        for label in ("yes", "no"):
            write_clips(self.clips, label, 24, seed=1)
        self.public = public_set_of(folder / "public", [info.name for info in KNOWN], 12, settings)

    def work(self, kind="learn", round_id=1, weights=None, classes=KNOWN):
        return dataclasses.replace(
            work_of("fedavg", round_id, **SETTINGS),
            kind=kind,
            classes=classes,
            backing=(ClassBacking("c3", 2),),
            public_set=self.keep(self.public.pack()),
            model=self.keep(self.bundle.read_bytes()),
            weights=None if weights is None else self.keep(pack(weights, {})),
        )

    def report(self, round_id=1) -> Learned:
        return parse(Learned, json.loads(self.state.outbox.read(self.state.outbox.learned_path(round_id))))


def fleets(saved, *, wrong=False):
    """A device's weights in the fleet's order of slots; wrong: a fleet of liars that exchanges `yes` and `no`."""
    labels = saved.progress.label_map
    order = list(range(labels.capacity))
    names = [info.name for info in KNOWN if info.name in labels.names]
    for place, name in enumerate(names[::-1] if wrong else names):
        order[place] = labels.slot_of(name)
    for place in range(len(names), labels.capacity):
        order[place] = place
    head = saved.bundle.manifest.head.weights
    return {name: array[..., order] if name in head else array for name, array in saved.bundle.weights.items()}


@pytest.fixture
def member(tmp_path, bundles):
    """A device that has contributed to round 1."""
    made = Member(tmp_path, bundles["cnn1"], PRESETS["gudur"])
    made.do(made.work("contribute"))
    return made


def test_a_good_result_is_taken(member):
    before = member.state.model.load(member.bundle)
    saved = member.do(member.work(weights=fleets(before)))
    report = member.report()
    assert not report.kept_own
    assert report.metrics["held_out_before"] == report.metrics["held_out_after"] > 80
    assert saved.progress.unheard == ()
    assert "its result is taken" in member.log


def test_a_fleet_of_liars_is_refused_and_what_the_old_model_does_not_know_is_off(member):
    before = member.state.model.load(member.bundle)
    work = member.work(weights=fleets(before, wrong=True), classes=(*KNOWN, KETTLE))
    saved = member.do(work)
    assert all(np.array_equal(saved.listening[name], before.listening[name]) for name in before.listening)
    report = member.report()
    assert report.kept_own
    assert report.metrics["held_out_before"] > 80 > 20 > report.metrics["held_out_after"]
    assert "keeps a model of its own" in member.log
    assert (saved.progress.learned, saved.progress.judged["kept_own"]) == (1, 1)
    labels = saved.progress.label_map
    assert labels.class_ids == ("no", "yes", "up", "c3")  # the labels follow the fleet all the same
    loaded = load_listening(member.config)
    assert loaded.label_map.listening_mask[:4].tolist() == [1, 1, 0, 0]

    accepted = member.do(member.work(round_id=2, weights=fleets(before), classes=(*KNOWN, KETTLE)))
    assert not member.report(2).kept_own
    assert accepted.progress.unheard == ()
    assert load_listening(member.config).label_map.listening_mask[:4].all()


def false_accepts(member):
    """Share of sounds of no label that the device takes for one, by its own thresholds."""
    loaded = load_listening(member.config)
    saved = member.state.model.load(member.bundle)
    manifest = saved.bundle.manifest
    words = [
        word
        for word in range(len(manifest.embedding_statistics.words))
        if manifest.embedding_statistics.words[word] not in ("yes", "no", "up")
    ]
    others = manifest.embedding_statistics.samples[words].reshape(-1, manifest.feature_settings.shape[1])
    clips = np.stack([melody("stop", np.random.default_rng([9, seed])) for seed in range(20)]).astype(np.float32)
    others = np.concatenate([others, open_front_end(manifest.feature_settings)(clips)[:, 0]])
    scores = loaded.model.predict(loaded.model.normalise(others[:, None]), loaded.label_map.listening_mask)
    return float((scores[:, : len(loaded.label_map.slots)].max(axis=1) > 0.5).mean())


def test_on_a_pretrained_front_end_no_round_brings_back_false_accepts(tmp_path, pretrained_bundle):
    settings = ModelRuntime.open(pretrained_bundle).manifest.feature_settings
    member = Member(tmp_path, pretrained_bundle, settings)
    saved = member.teach()
    before = false_accepts(member)
    assert before < 0.1
    member.do(member.work("contribute"))
    assert false_accepts(member) <= before
    after = member.do(member.work(weights=fleets(saved)))
    assert after.progress.background_trained
    assert set(after.progress.tails) == set(after.progress.label_map.names)
    assert false_accepts(member) < before + 0.03
    assert member.to_teach() is None
