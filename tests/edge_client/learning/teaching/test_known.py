"""A device that listens for sounds and words which nobody taught it, and learns more of them from takes."""

import json
import re

import httpx
import numpy as np
import pytest

from edge_client.audio.recordings import encode_wave, read_recording
from edge_client.clips.folders import choose_known, known_labels, store_digest
from edge_client.config import load_config
from edge_client.daemon.listening_loop import load_listening
from edge_client.daemon.status import model_status
from edge_client.detection.detector import Detector
from edge_client.detection.scores import Scorer
from edge_client.detection.thresholds import logits
from edge_client.learning.teaching.job import to_teach
from edge_client.learning.teaching.prototypes import prototype
from edge_client.model.prototypes import Prototype
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.ground.sample_sounds import takes
from tests.support.checkout import DATA
from tests.support.edge_commands import EdgeCommands
from tests.support.owner_page import OwnerPage
from tests.support.taught_device import Device

RATE = 16_000


def heard_in(device, kind, seed=3):
    """The labels that a device hears in a stream with one synthesised sound."""
    detector = Detector(load_listening(device.config), device.config.detector)
    rng = np.random.default_rng(seed)
    stream = rng.normal(scale=1e-3, size=RATE * 20).astype(np.float32)
    sound = takes(kind, 1, 3 * RATE, rng)[0]
    stream[8 * RATE : 8 * RATE + len(sound)] += sound
    events = [heard.event.label for part in np.split(stream, 40) for heard in detector.push(part)]
    return {label for label in events if label != "unknown"}


def test_a_sound_is_heard_with_nothing_taught_and_takes_join_what_is_known(tmp_path):
    device = Device(tmp_path, find_bundle("sounds_2s"))
    choose_known(device.clips, "Rex", "dog")
    choose_known(device.clips, "wake", "alarm clock")
    assert device.to_teach() is not None
    device.teach()
    progress = device.state.model.load(device.bundle).progress
    assert progress.known == {"Rex": "dog", "wake": "alarm clock"}
    assert (progress.label_map.labels, progress.silent) == (("Rex", "wake"), ())
    assert len(progress.unheard) == 2  # the head knows nothing of them
    assert progress.tails["wake"] == (1.5, 1.5)
    said = model_status(progress)
    assert (said["known"], said["not_listened_for"]) == (progress.known, [])
    assert device.to_teach() is None
    assert heard_in(device, "alarm") == {"wake"}
    assert heard_in(device, "rain") == set()
    assert load_listening(device.config).lasting == {"Rex", "wake"}

    for number, take in enumerate(takes("alarm", 5, 2 * RATE, np.random.default_rng(5))):
        (device.clips / "wake" / f"{number}.wav").write_bytes(encode_wave(take, RATE))
    device.teach()
    progress = device.state.model.load(device.bundle).progress
    assert progress.unheard == (progress.label_map.slot_of("Rex"),)
    assert heard_in(device, "alarm") == {"wake"}
    choose_known(device.clips, "wake", None)
    device.teach()
    # The takes say by themselves which of the built-in sounds they are; the owner's choice comes first.
    assert device.state.model.load(device.bundle).progress.known == {"Rex": "dog", "wake": "smoke detector"}
    assert heard_in(device, "alarm") == {"wake"}
    choose_known(device.clips, "wake", "alarm clock")
    for path in (device.clips / "wake").glob("*.wav"):
        path.unlink()
    choose_known(device.clips, "wake", None)
    assert not (device.clips / "wake").exists()
    device.teach()
    assert device.state.model.load(device.bundle).progress.known == {"Rex": "dog"}


@pytest.mark.skipif(not (DATA / "gsc_v2_test").is_dir(), reason=f"there are no recordings in {DATA}")
@pytest.mark.parametrize("bundle", ["words", "words_and_sounds"])
def test_a_word_is_heard_with_nothing_taught_and_takes_join_it_under_its_own_name(tmp_path, bundle):
    device = Device(tmp_path, find_bundle(bundle))
    recordings = {word: sorted((DATA / "gsc_v2_test" / word).iterdir()) for word in ("stop", "yes", "left")}
    rng = np.random.default_rng(0)
    stream = rng.normal(scale=1e-3, size=RATE * 60).astype(np.float32)
    for number in range(24):  # eight of each, which others said
        word = read_recording(recordings[("stop", "yes", "left")[number % 3]][-1 - number], RATE)
        start = round((2.4 * number + 1) * RATE)
        stream[start : start + len(word)] += word

    def counts():
        detector = Detector(load_listening(device.config), device.config.detector)
        events = [one.event.label for part in np.split(stream, 120) for one in detector.push(part)]
        return {label: events.count(label) for label in {*events} - {"unknown"}}

    choose_known(device.clips, "halt", "stop")
    device.teach()
    progress = device.state.model.load(device.bundle).progress
    assert (progress.known, progress.silent, progress.tails["halt"]) == ({"halt": "stop"}, (), (1.0, 1.6))
    assert load_listening(device.config).lasting == set()
    found = counts()
    assert (found.keys(), found["halt"] >= 6) == ({"halt"}, True)
    for label, word in (("yes", "yes"), ("links", "left")):
        (device.clips / label).mkdir()
        for path in recordings[word][:5]:
            (device.clips / label / path.name).write_bytes(path.read_bytes())
    device.teach()
    progress = device.state.model.load(device.bundle).progress
    assert progress.known == {"halt": "stop", "yes": "yes"}  # `links` is not called as the word that it is
    assert progress.tails["yes"] == (1.0, 1.6)
    found = counts()
    assert min(found["halt"], found["yes"]) >= 6


@pytest.mark.parametrize("bundle", ["sounds_2s", "words_and_sounds"])
def test_a_sound_s_score_is_of_the_head_the_prototype_and_the_classifier_if_that_knows_it(bundle):
    model = ModelRuntime(read_bundle(find_bundle(bundle)))
    statistics = model.manifest.embedding_statistics
    labels = LabelMap(model.manifest.capacity, reserved=len(model.manifest.background)).add("mine").add("other")
    features = statistics.samples[-8:, 0][:, None]
    head = logits(model.predict(model.normalise(features), labels.listening_mask)[:, :2])
    known = statistics.known.logits(features[:, 0], ("dog",))[:, 0]
    near = prototype(statistics.samples[-3], statistics, sound=True)
    mine = Prototype(near[None], np.zeros((0, len(near[0]))))
    cosine = statistics.directions(features[:, 0]) @ near[0].astype(np.float64) - 0.5
    assert cosine.argmax() == 5
    scores = logits(Scorer(model, labels, {"mine": mine, "other": mine}, {"mine": "dog"})(features))
    wanted = 0.2 * head[:, 0] + 10 * cosine + known, 0.5 * head[:, 1] + 15 * cosine
    np.testing.assert_allclose(scores, np.clip(np.stack(wanted, axis=1), -15, 15), atol=0.05)
    unknown = Scorer(model, labels, {}, {"mine": "what no front end knows"})(features)
    np.testing.assert_allclose(logits(unknown), head, atol=0.05)
    off = LabelMap(labels.capacity, labels.slots, labels.reserved, off=(0,))
    alone = Scorer(model, off, {}, {"mine": "dog"})(features)[:, 0]
    np.testing.assert_allclose(logits(alone), np.clip(known, -15, 15), atol=0.05)


def test_an_owner_chooses_sounds_by_commands(tmp_path, capsys):
    edge = EdgeCommands(tmp_path, capsys)
    out = edge(
        "init", "--alone", "--microphone", "none", "--bundle", "sounds_2s", "--knows", "doorbell, smoke detector"
    )
    assert "it listens for doorbell, smoke detector, with nothing taught" in out
    assert "`auricle-edge clips knows` lists what it knows" in out
    clips = load_config(edge.config).clips_folder
    assert known_labels(clips) == {"doorbell": "doorbell", "smoke detector": "smoke detector"}
    assert "'doorbell': built-in, 0 takes" in edge("clips")
    assert json.loads(edge("clips", "--json"))["known"] == known_labels(clips)
    assert edge("clips", "knows", "dog", "--label", "Rex") == "it listens for 'Rex' from now on\n"
    assert "'Rex' (dog): built-in" in edge("clips")
    before = store_digest(clips)
    edge("clips", "knows", "doorbell", "--off")
    assert (known_labels(clips).keys(), store_digest(clips) == before) == ({"Rex", "smoke detector"}, False)
    assert "no built-in sound that you chose" in edge("clips", "knows", "doorbell", "--off", status=1)
    assert "baby cry" in edge("clips", "knows")
    for hostile in ("../../etc", "dog/..", "", "x" * 300, "\x1b[31mdog"):
        assert "; there is:" in edge("clips", "knows", hostile, status=1)
    for hostile in ("../up", "_not_", ".hidden", "unknown", "x" * 101):
        assert "cannot be a label" in edge("clips", "knows", "dog", "--label", hostile, status=1)
    assert known_labels(clips).keys() == {"Rex", "smoke detector"}
    assert {path.name for path in clips.iterdir() if path.is_dir()} == {"Rex", "smoke detector"}


def test_a_device_that_knows_nothing_says_which_bundles_do(tmp_path, capsys):
    edge = EdgeCommands(tmp_path, capsys)
    assert "clips knows" not in edge("init", "--alone", "--microphone", "none", "--bundle", "base")
    told = edge("init", "--force", "--alone", "--microphone", "none", "--bundle", "base", "--knows", "dog", status=1)
    assert "no 'dog' is built into the bundle base; words, sounds, sounds_2s and words_and_sounds have some" in told
    assert "built into base: nothing" in edge("clips", "knows")


@pytest.mark.parametrize("bundle", ["words", "sounds_2s", "words_and_sounds"])
def test_no_owner_is_offered_what_only_the_pretraining_calls_so(tmp_path, capsys, bundle):
    edge = EdgeCommands(tmp_path, capsys)
    edge("init", "--alone", "--microphone", "none", "--bundle", bundle)
    offered = json.loads(edge("clips", "knows", "--json"))["known"]
    assert len(offered) > 30
    assert all(name.replace(" ", "").isalpha() and "synthetic" not in name for name in offered)
    refused = edge("clips", "knows", "beijing_4", status=1)
    assert "smart_mirror" not in refused


@pytest.mark.slow
def test_an_owner_chooses_sounds_on_the_page(tmp_path):
    device = Device(tmp_path, find_bundle("sounds"))
    with OwnerPage(tmp_path / "edge.toml") as page, httpx.Client(base_url=page.url, timeout=180) as client:
        shown = client.get("/sounds").text
        assert 'data-do="know" data-sound="doorbell"' in shown
        token = re.search(r'csrf-token" content="(\w+)"', shown)[1]

        def post(**fields):
            return client.post("/sounds/know", data=fields, headers={"Origin": page.url, "X-CSRF-Token": token})

        assert "doorbell is listened for" in post(sound="doorbell").json()["message"]
        shown = client.get("/sounds").text
        assert "built-in, 0 takes" in shown
        assert 'data-sound="doorbell"' not in shown
        assert to_teach(device.config, device.state) is not None
        for fields in ({"sound": "../x"}, {"sound": "dog\x00"}, {"label": "../doorbell"}, {"label": "dog"}, {}):
            assert post(**fields).status_code == 409
        assert "leaves the model" in post(label="doorbell").json()["message"]
        assert (known_labels(device.clips), store_digest(device.clips)) == ({}, None)
        assert page.end() == ""
