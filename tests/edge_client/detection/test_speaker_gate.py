"""`[labels.NAME] only_me`: strangers' words make no event, their owner's do, and only takes say whose voice that is."""

import dataclasses
import shutil
import threading

import numpy as np
import pytest
import soundfile

from demo.corpus import cached
from edge_client.audio.recordings import read_clip
from edge_client.commands.daemon import _lines
from edge_client.config.sections import LabelConfig
from edge_client.daemon.daemon import Daemon
from edge_client.daemon.diagnosis import examine
from edge_client.daemon.listening_loop import load_listening
from edge_client.detection.detector import Detector
from edge_client.detection.speaker_gate import (
    FEWEST_TAKES,
    VOICES,
    SpeakerGate,
    Voices,
    open_gate,
    shipped_voices,
    voice_numbers,
)
from edge_client.errors import ConfigError
from edge_client.events.journal import JOURNAL, past_events
from edge_client.features.log_mel import LogMel
from fleet_protocol.feature_settings import preset
from fleet_protocol.ready_bundles import find_bundle
from tests.support.checkout import ROOT
from tests.support.edge_process import wait_for
from tests.support.taught_device import Device

RATE = 16_000
ONLY_ME = {"labels.open": "only_me = true"}


@pytest.fixture(scope="module")
def corpus():
    """Two words by six synthesised voices, eight takes each."""
    return cached(ROOT / "build" / "tests", ("open", "lights"), 6, 8, 5)


def clips(corpus, speaker, word="open"):
    return [corpus / word / f"{speaker:08x}_nohash_{take}.wav" for take in range(8)]


def samples(path):
    return read_clip(path, preset("log_mel")).astype(np.float32)


def copy(paths, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        shutil.copy(path, folder / path.name)


def owners_device(folder, corpus, takes=5, **sections):
    """A device that voice 3 taught two words, and another one a third of them."""
    device = Device(folder, find_bundle("base", folder), **sections)
    copy(clips(corpus, 3)[:takes], device.clips / "open")
    copy(clips(corpus, 3, "lights")[:5], device.clips / "lights")
    device.teach()
    return device


def stream_of(paths, gap_s=2.0):
    """A stream of clips with quiet between them."""
    rng = np.random.default_rng(3)
    quiet = rng.normal(scale=0.003, size=(len(paths) + 1, round(gap_s * RATE))).astype(np.float32)
    parts = [quiet[0], *(part for path, after in zip(paths, quiet[1:], strict=True) for part in (samples(path), after))]
    return np.concatenate(parts)


def heard(detector, paths):
    """The labels that are detected in a stream of clips."""
    return [one.event.label for one in detector.push(stream_of(paths)) if one.event.kind == "detected"]


def detector_of(loaded, config, **changes):
    loaded = loaded._replace(**changes)
    return Detector(loaded.model, loaded.label_map, config, tails=loaded.tails, accepts=loaded.accepts)


def test_a_strangers_word_makes_no_event_and_its_owners_does(tmp_path, corpus):
    device = owners_device(tmp_path, corpus, **ONLY_ME)
    config = dataclasses.replace(device.config.detector, threshold=0.5)
    loaded = load_listening(device.config)
    own, strangers = clips(corpus, 3)[5:], [clips(corpus, speaker)[0] for speaker in (1, 2, 5)]
    without = heard(detector_of(loaded, config, accepts=None), own + strangers).count("open")
    detector = detector_of(loaded, config)
    assert heard(detector, own) == ["open"] * 3
    assert heard(detector, strangers) == []
    assert detector.counters.refused == without - 3 >= 2  # the model itself hears at least two of them
    # Of another label everybody is heard: the section is about one.
    assert "lights" in heard(detector, [clips(corpus, speaker, "lights")[0] for speaker in range(6)])


def test_a_wake_word_waits_for_its_owner_too(tmp_path, corpus):
    audio = pytest.importorskip("wyoming.audio")
    from edge_client.voice.wake_words import Stream

    device = owners_device(tmp_path, corpus, **ONLY_ME)
    loaded, config = load_listening(device.config), dataclasses.replace(device.config.detector, threshold=0.5)
    own, strangers = clips(corpus, 3)[5:6], [clips(corpus, speaker)[0] for speaker in (1, 2, 5)]

    def wakes(paths):
        satellite = Stream(loaded, config, audio.AudioStart(RATE, 2, 1))
        return satellite.push((32_767 * stream_of(paths)).astype("<i2").tobytes())

    assert (wakes(own), wakes(strangers)) == (["open"], [])


def test_a_voice_is_known_whatever_the_word_and_however_long_the_window(corpus):
    for word, owner in (("open", 3), ("lights", 1)):
        takes = {word: np.stack([samples(path) for path in clips(corpus, owner, word)[:4]])}
        gate = SpeakerGate(takes, RATE)
        for path in clips(corpus, owner, word)[4:]:
            assert gate.accepts(word, samples(path))
            longer = np.concatenate([np.zeros(RATE // 2, np.float32), samples(path), np.zeros(RATE // 2, np.float32)])
            assert gate.likeness(word, longer) == pytest.approx(gate.likeness(word, samples(path)), abs=8)
        others = [clips(corpus, other, word)[0] for other in range(6) if other != owner]
        assert sum(not gate.accepts(word, samples(path)) for path in others) >= 3
        assert gate.strange(word) == 0
        assert gate.accepts("another label", np.zeros(RATE, np.float32))


def test_two_gaussians_weigh_what_people_differ_in():
    voices = Voices(np.zeros((200, 2), np.float32), np.array([9.0, 0.0], np.float32))
    takes = np.zeros((4, 2))
    near, far, elsewhere = voices.likeness(takes, np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]]))
    assert near == elsewhere > 0 > far  # in the second direction nobody differs
    one, another = 1.25, 19.25
    expected = -0.5 * (16 / one + np.log(one)) + 0.5 * (16 / another + np.log(another))
    assert far == pytest.approx(expected)
    assert voices.likeness(takes[:1], np.zeros((1, 2)))[0] < near  # more takes say more


def test_what_comes_with_auricle_is_small_and_says_where_it_is_from():
    assert VOICES.stat().st_size < 20_000
    assert b"Speech Commands v2" in VOICES.read_bytes()


def test_with_too_few_takes_everybody_is_heard_and_it_is_said(tmp_path, corpus, caplog):
    device = owners_device(tmp_path, corpus, takes=FEWEST_TAKES - 1, **ONLY_ME)
    loaded = load_listening(device.config)
    assert loaded.accepts is None
    assert "[labels.open] only_me: everybody is heard: 2 takes do not tell whose voice it is" in caplog.text
    assert "auricle-edge record open" in caplog.text
    found = {finding.check: finding for finding in examine(tmp_path / "edge.toml")}
    assert found["only_me"].verdict == "warning"
    assert "'open': everybody is heard" in found["only_me"].found
    copy(clips(corpus, 3)[5:6], device.clips / "open")
    assert load_listening(device.config).accepts is not None
    found = {finding.check: finding for finding in examine(tmp_path / "edge.toml")}
    assert (found["only_me"].verdict, found["only_me"].found) == ("ok", "'open': the voice of 3 takes")


def test_takes_by_several_people_are_told_and_an_everyday_sound_has_nobodys_voice(tmp_path, corpus):
    device = owners_device(tmp_path, corpus, **ONLY_ME)
    copy([path for speaker in (1, 2, 5) for path in clips(corpus, speaker)[:2]], device.clips / "open")
    _, (one,) = open_gate(device.config, RATE)
    assert "takes are as if by somebody else" in one.said
    gate, (one,) = open_gate(device.config, RATE, lasting=["open"])
    assert gate is None
    assert "everyday sound" in one.said


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"labels.open": "only_us = true"}, "unknown key 'only_us' in [labels.open]"),
        ({"labels.open": 'only_me = "yes"'}, "[labels.open] only_me = 'yes' is of the wrong type"),
        ({"labels": "open = 3"}, "[labels.open] must be a section"),
        ({"labels._open": ""}, "cannot be a label: it must not start with _"),
        ({'labels."a/b"': ""}, "cannot be a label: it must not contain /"),
    ],
)
def test_what_cannot_be_said_of_a_label_is_refused(tmp_path, sections, told):
    with pytest.raises(ConfigError) as error:
        Device(tmp_path, "base", **sections)
    assert told in str(error.value)
    assert "edge.toml" in str(error.value)


def test_a_label_with_a_blank_and_an_accent_is_named_as_the_clip_store_names_it(tmp_path):
    device = Device(tmp_path, "base", **{'labels."ge\u0301nie du soir"': "only_me = true"})
    assert device.config.labels == {"g\u00e9nie du soir": LabelConfig(only_me=True)}


def test_a_daemon_refuses_a_stranger_until_the_takes_are_gone(tmp_path, corpus):
    played = tmp_path / "played.wav"
    quiet = np.random.default_rng(0).normal(scale=0.003, size=2 * RATE)
    soundfile.write(played, np.concatenate([quiet, samples(clips(corpus, 1)[0]), quiet]), RATE)
    sections = {"microphone": f'backend = "file"\nfile = "{played}"', "detector": "threshold = 0.5"}
    device = owners_device(tmp_path, corpus, **ONLY_ME, **sections)
    stop = threading.Event()
    daemon = Daemon(device.config, tmp_path / "edge.toml", stop)
    thread = threading.Thread(target=daemon.run, daemon=True)
    thread.start()

    def labels():
        return [event.label for event in past_events(device.state.folder / JOURNAL, 50) if event.kind == "detected"]

    try:
        refused = wait_for(lambda: (daemon.status()["listening"] or {}).get("refused"), what="a stranger's word")
        assert labels() == []
        assert refused >= 1
        assert any("refused " in line for line in _lines(daemon.status() | {"time": 0, "running": True} | NO_LABELS))
        for path in clips(corpus, 3)[: 6 - FEWEST_TAKES]:
            (device.clips / "open" / path.name).unlink()
        wait_for(labels, what="the stranger, once the voice is not known any more")
    finally:
        stop.set()
        thread.join(60)
    assert set(labels()) == {"open"}
    # What is known of the voice lay in memory alone.
    log_mel = LogMel(preset("log_mel"))(np.stack([samples(path) for path in clips(corpus, 3)]))
    kept = b"".join(path.read_bytes() for path in device.state.folder.rglob("*") if path.is_file())
    assert len(kept) > 100_000
    for voice in (*voice_numbers(log_mel), *shipped_voices().of(log_mel)):
        for kind in (np.float16, np.float32, np.float64):
            assert voice[:4].astype(kind).tobytes() not in kept


NO_LABELS = {"expected": [], "same": []}
