"""A device's part in a round of prototypes, as its training process does it."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from edge_client.audio.recordings import Recordings
from edge_client.clips.folders import rejected
from edge_client.config import load_config
from edge_client.features.front_end import open_front_end
from edge_client.learning.teaching.heard import Embedder
from edge_client.owner import Teaching
from fleet_protocol.messages.rest import Choice, ClassBacking, ClassInfo
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_protocol.numbers.tensors import unpack
from fleet_protocol.numbers.word_order import WordOrder
from tests.support.edge_process import wait_for
from tests.support.phrases import joined, write_takes
from tests.support.round_work import work_of
from tests.support.sounds import melody, public_set_of, write_clips
from tests.support.taught_device import Device, recall, recall_as

pytestmark = pytest.mark.slow

CLASSES = ("yes", "no")


@pytest.fixture
def device(tmp_path, pretrained_bundle):
    made = Device(tmp_path, pretrained_bundle, training="teach_epochs = 8")
    for label in ("yes", "stop"):
        write_clips(made.clips, label, 4, seed=1)
    return made


@pytest.fixture
def public(device, tmp_path):
    settings = device.state.model.load(device.bundle).bundle.manifest.feature_settings
    return public_set_of(tmp_path / "public", CLASSES, 6, settings)


def work_for(device, public, kind="contribute", prototypes=None, classes=None, corrections=True, backing=None):
    work = work_of("prototypes")
    how = Choice("prototype_mean", {"corrections": True} if corrections else {})
    return dataclasses.replace(
        work,
        kind=kind,
        plan=dataclasses.replace(work.plan, aggregation=how),
        public_set=device.keep(public.pack()),
        classes=classes or public.classes,
        prototypes=None if prototypes is None else device.keep(prototypes.pack()),
        backing=(ClassBacking("c2", 2) if backing is None else backing,),
    )


def killed(device, work):
    """Have the training process do the work, and kill it while it fits the head."""
    with device.worker(work) as child:
        wait_for(device.state.embeddings_path.exists, what="the embeddings")
        child.kill()


def of_another_device(public):
    """What a fleet has whose other device was taught "down"; a class that it calls sound-2."""
    clips = np.stack([melody("down", np.random.default_rng([5, seed])) for seed in range(6)]).astype(np.float32)
    mean = open_front_end(public.settings)(clips).mean(axis=0)
    found = FleetPrototypes(public.settings.digest, ("c2",), mean[None], np.array([1]), ("c2",))
    return found, (*public.classes, ClassInfo("c2", "sound-2", 2))


def test_it_sends_the_means_of_its_clips_and_their_numbers_the_same_after_a_kill(device, public):
    work = work_for(device, public)
    killed(device, work)
    device.do(work)
    sent = device.state.outbox.read(device.state.outbox.update_path(3))
    arrays, document = unpack(sent)
    assert (document["classes"], document["known"]) == (["yes"], ["yes"])
    (report,) = document["reports"]
    clips = Recordings(device.clips, public.settings)
    for row, label in enumerate(("yes", "stop")):
        expected = open_front_end(public.settings)(clips.load(clips.clips(label))).mean(axis=0)
        np.testing.assert_allclose(arrays["prototypes"][row], expected, atol=1e-5)
    assert arrays["counts"].tolist() == [4.0, 4.0]
    saved = device.state.model.load(device.bundle)
    assert saved.progress.label_map.names[report["slot"]] == "stop"
    device.do(work)
    assert device.state.outbox.read(device.state.outbox.update_path(3)) == sent


def sent(device, work):
    device.do(work)
    return unpack(device.state.outbox.read(device.state.outbox.update_path(work.round_id)))


def denied(device, label, sound, count, seed=5):
    """Have an owner say of some sounds that they are not a label."""
    write_clips(device.folder / "sounds", sound, count, seed=seed)
    folder = device.clips / rejected(label)
    folder.mkdir(parents=True, exist_ok=True)
    for path in (device.folder / "sounds" / sound).glob(f"{seed:04x}*"):
        shutil.copy(path, folder / f"{sound}_{path.name}")
    return folder


@pytest.mark.parametrize("asked", [False, True])
def test_it_sends_none_that_nobody_asked_for_or_its_owner_does_not_want_to_send(device, public, asked):
    denied(device, "yes", "up", 3)
    if asked:
        path = device.folder / "edge.toml"
        path.write_text(path.read_text().replace("[device]", "[device]\nshare_corrections = false"))
        device.config = load_config(path)
    arrays, document = sent(device, work_for(device, public, corrections=asked))
    assert (document["negatives"], set(arrays)) == ([], {"prototypes", "counts"})


def test_it_learns_a_class_that_only_others_were_taught_and_comes_to_the_same_model_after_a_kill(
    device, public, tmp_path
):
    prototypes, classes = of_another_device(public)
    work = work_for(device, public, "learn", prototypes, classes)
    shutil.copytree(device.state.folder, tmp_path / "before")
    killed(device, work)
    saved = device.state.model.load(device.bundle)
    if saved.progress.learned != work.round_id:  # as the daemon asks; the kill may have come when all was done
        saved = device.do(work)
    assert saved.progress.provisional_labels == ("sound-2",)
    assert (saved.progress.learned, saved.progress.background_trained) == (3, True)
    assert json.loads(device.state.outbox.read(device.state.outbox.learned_path(3)))["round_id"] == 3
    assert recall(tmp_path, saved, "yes") > 0.8
    assert recall_as(saved, "down", "sound-2") > 0.5
    model = (device.state.folder / "model.safetensors").read_bytes()
    shutil.rmtree(device.state.folder)
    shutil.copytree(tmp_path / "before", device.state.folder)
    device.do(work)
    assert (device.state.folder / "model.safetensors").read_bytes() == model


def test_a_class_that_too_few_sent_takes_no_slot_until_its_owner_or_an_operator_vouches_for_it(device, public):
    prototypes, classes = of_another_device(public)
    one = work_for(device, public, "learn", prototypes, classes, backing=ClassBacking("c2", 1))
    assert set(device.do(one).progress.label_map.labels) == {"yes", "stop"}
    (offer,) = device.state.offers.all()
    assert (offer.is_asked, offer.why_silent) == (True, "1 device was taught it, and 2 are needed")
    assert offer.question == "another device teaches 'sound-2': listen for it?"

    device.state.offers.say("c2", True)
    assert device.to_teach()
    assert recall_as(device.teach(), "down", "sound-2") > 0.5
    assert not device.to_teach()
    device.state.offers.say("c2", None)
    assert set(device.teach().progress.label_map.labels) == {"yes", "stop"}

    approved = work_for(device, public, "learn", prototypes, classes, backing=ClassBacking("c2", 1, approved=True))
    assert "sound-2" in device.do(dataclasses.replace(approved, round_id=4)).progress.label_map.labels
    refused = work_for(device, public, "learn", prototypes, classes, backing=ClassBacking("c2", 3, quarantined=True))
    assert "sound-2" not in device.do(dataclasses.replace(refused, round_id=5)).progress.label_map.labels


def test_a_class_of_its_owners_sounds_is_tried_refused_reported_and_the_rest_is_taken(device, public):
    """Two devices say that a new sound is what this owner calls "stop"; another one is not."""
    prototypes, classes = of_another_device(public)
    front_end = open_front_end(public.settings)
    lie = front_end(np.stack([melody("stop", np.random.default_rng([5, seed])) for seed in range(6)])).mean(axis=0)
    sent = FleetPrototypes(public.settings.digest, ("c2", "c3"), np.stack([prototypes.means[0], lie]), np.array([2, 2]))
    work = work_for(device, public, "learn", sent, (*classes, ClassInfo("c3", "zz", 2)))
    work = dataclasses.replace(work, backing=tuple(ClassBacking(class_id, 2) for class_id in sent.class_ids))
    progress = device.do(work).progress
    assert set(progress.label_map.labels) == {"yes", "stop", "sound-2"}
    report = json.loads(device.state.outbox.read(device.state.outbox.learned_path(3)))
    assert (report["refused"], report["kept_own"]) == ({"c3": "own_sounds"}, False)
    offers = {one.name: one.why_silent for one in device.state.offers.all()}
    assert offers["sound-2"] == ""
    assert "of 'stop' would be taken for it" in offers["zz"]
    again = device.do(dataclasses.replace(work, round_id=4)).progress
    assert set(again.label_map.labels) == {"yes", "stop", "sound-2"}  # it is not tried again


def test_an_owners_sound_finds_a_slot_in_a_head_full_of_sounds_of_others(device):
    saved = device.state.model.load(device.bundle)
    label_map = saved.progress.label_map
    for number in range(label_map.free):
        label_map = label_map.add(f"zz {number}", f"c{number}")
    progress = dataclasses.replace(saved.progress, label_map=label_map)
    device.state.model.save(saved.bundle.weights, saved.listening, progress)
    assert Teaching.open(device.folder / "edge.toml").require_slot("own") == "own"
    labels = device.teach().progress.label_map.labels
    assert {"yes", "stop"} <= set(labels)
    assert len(labels) == label_map.free


def test_a_phrase_that_ends_as_an_owners_is_taken_where_another_word_comes_before_and_refused_where_none_is_told(
    device, public
):
    rng = np.random.default_rng(3)
    spoken = [joined(*(melody(part, rng).astype(np.float32) for part in ("up", "zip"))) for _ in range(5)]
    write_takes(device.clips, "up zip", spoken)
    heard = Embedder(device.config, public.settings, device.state.embeddings_path).embeddings()
    end, before = heard.takes["up zip"].mean(axis=(0, 1)), heard.before["up zip"]
    own = before.rows.mean(axis=1)[:, None]
    down = open_front_end(public.settings)(np.stack([melody("down", rng) for _ in range(6)]).astype(np.float32))
    other = np.repeat(down.mean(axis=0)[None], len(own), axis=0)
    order = WordOrder.of([(own[:0], 0.0), (own, before.length_s), (other, before.length_s)], public.settings.shape)
    classes = ("c2", "c3", "c4")
    ends = np.repeat(end[None, None], 3, axis=0).astype(np.float32)
    sent = FleetPrototypes(public.settings.digest, classes, ends, np.array([2, 2, 2]), order=order)
    infos = (*public.classes, *(ClassInfo(class_id, f"sound-{class_id}", 2) for class_id in classes))
    work = work_for(device, public, "learn", sent, infos)
    work = dataclasses.replace(work, backing=tuple(ClassBacking(class_id, 2) for class_id in classes))
    labels = device.do(work).progress.label_map.labels
    assert device.state.offers.refusals() == {"c2": "own_sounds", "c3": "own_sounds"}
    assert "sound-c4" in labels
