"""A taught word as openWakeWord hears it, by pyopen-wakeword from the sound on, beside the device that was taught."""

import shutil

import numpy as np
import pytest
import soundfile

from demo.corpus import synthesise
from edge_client.api import Classifier
from edge_client.config import load_config
from edge_client.config.sections import DetectorConfig
from edge_client.daemon.listening_loop import load_listening
from edge_client.detection.detector import Detector
from edge_client.model.interpreter import open_network
from model_export.graph_operators import operators_by_signature
from tests.support.checkout import run_module
from tests.support.open_wake_word import PART, RATE, SILENCE, heard_by_open_wake_word, to_pcm
from tests.support.sounds import write_clips
from tests.support.taught_device import Device

pytestmark = pytest.mark.slow

WORDS = ("computer", "jarvis", "umbrella")
# Windows of openWakeWord begin so many samples later than those of a device that hears the same stream.
AHEAD = 936
# Parts that a device heard when openWakeWord says its first score.
FIRST = 24


def export(source, label, output, *options):
    return run_module("model_export.cli", "openwakeword", source, label, "-o", output, *options)


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """Recordings of the words by six voices, two takes each."""
    folder = tmp_path_factory.mktemp("spoken") / "words"
    synthesise(folder, WORDS, speakers=6, takes=2, seed=2)
    return folder


@pytest.fixture(scope="module")
def device(tmp_path_factory, spoken_bundle, spoken):
    """A device that was taught them."""
    one = Device(tmp_path_factory.mktemp("device"), spoken_bundle)
    shutil.copytree(spoken, one.clips)
    one.teach()
    return one


def stream_of(clips):
    """A quiet room in which the clips are heard, one every four seconds from the second on, nowhere on a beat."""
    rng = np.random.default_rng(0)
    heard = rng.normal(0, 0.003, (4 * len(clips) + 1) * RATE)
    for number, clip in enumerate(clips):
        heard[4 * number * RATE + RATE + 333 * number :][: len(clip)] += clip
    return to_pcm(heard)


def spoken_stream(spoken):
    said = [word for word in WORDS for _ in range(2)]
    return stream_of(
        [soundfile.read(sorted((spoken / word).glob("*.wav"))[number])[0] for number, word in enumerate(said)]
    )


def with_threshold(device, label, threshold):
    """The path of the device's configuration with an owner's threshold."""
    path = device.folder / "own.toml"
    path.write_text((device.folder / "edge.toml").read_text() + f"[detector.thresholds]\n{label} = {threshold}\n")
    return path


def heard_by_device(config, pcm, label):
    """Its averaged score at each part of 80 ms, where it looks as often as openWakeWord."""
    loaded = load_listening(load_config(config))
    pace = DetectorConfig(hop_s=0.08, average_s=0.32, energy_gate_db=-120)
    detector = Detector(loaded, pace)
    assert detector.hop_samples == PART
    stream = np.concatenate([np.zeros(SILENCE), pcm / 32_768]).astype(np.float32)[AHEAD:]
    standing = []
    for start in range(0, len(stream) - PART + 1, PART):
        detector.push(stream[start : start + PART])
        standing.append(detector.standing[label][0])
    return np.array(standing)


def test_its_scores_are_the_devices_own_at_the_same_windows(device, spoken, tmp_path):
    label, threshold = "jarvis", 0.8
    config = with_threshold(device, label, threshold)
    done = export(config, label, tmp_path / "word.tflite")
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'word.tflite'}\n"), done.stderr
    pcm = spoken_stream(spoken)
    theirs = heard_by_open_wake_word(tmp_path / "word.tflite", pcm)
    share = heard_by_device(config, pcm, label)
    ours = share * (1 - threshold) / (share * (1 - threshold) + (1 - share) * threshold)
    compared = min(len(theirs), len(ours) - FIRST + 1)
    begin = SILENCE // PART + 4  # digital silence is not looked at by a device
    np.testing.assert_allclose(theirs[begin:compared], ours[FIRST - 1 :][begin:compared], atol=1e-3)
    assert ((theirs[begin:compared] > 0.5) == (share[FIRST - 1 :][begin:compared] > threshold)).all()
    # Heard in its own eight seconds of the stream, and in no others.
    loud = (np.flatnonzero(theirs > 0.5) + FIRST) * PART - SILENCE
    number = WORDS.index(label)
    assert ((loud > 8 * number * RATE) & (loud < (8 * number + 8) * RATE)).all()
    assert len(loud) > 2


def test_the_graph_has_the_contract_of_open_wake_word_in_built_in_operators(device, tmp_path):
    path = tmp_path / "word.tflite"
    assert export(device.folder, "jarvis", path).returncode == 0
    (operators,) = operators_by_signature(path.read_bytes()).values()
    assert {"AVERAGE_POOL_2D", "FULLY_CONNECTED", "SOFTMAX"} <= set(operators)
    score = open_network(path.read_bytes())(np.zeros((1, 16, 96), np.float32))
    assert (score.shape, score.dtype) == ((1, 1), np.float32)
    for columns in (np.full((1, 16, 96), 1e4, np.float32), np.full((1, 16, 96), -1e4, np.float32)):
        assert 0 <= open_network(path.read_bytes())(columns).item() <= 1


def test_a_classifiers_words_are_exported_too(speech_bundles, tmp_path):
    bundle = speech_bundles / "linear.auricle"
    classifier = Classifier(bundle)
    for seed, label in enumerate(("no", "yes")):
        write_clips(tmp_path / "clips", label, 6, seed=seed)
    paths = sorted((tmp_path / "clips").glob("*/*.wav"))
    labels = [path.parent.name for path in paths]
    classifier.fit(paths, labels, epochs=20)
    classifier.save(tmp_path / "words.safetensors")
    done = export(bundle, "yes", tmp_path / "yes.tflite", "--model", tmp_path / "words.safetensors")
    assert done.returncode == 0, done.stderr
    clip = soundfile.read(paths[labels.index("yes")], dtype="float32")[0]
    scores = heard_by_open_wake_word(tmp_path / "yes.tflite", stream_of([clip]))
    assert scores[SILENCE // PART :].max() > 0.5


def test_what_cannot_be_exported_is_said_and_nothing_is_left(device, tmp_path):
    config, output = device.folder / "edge.toml", tmp_path / "word.tflite"

    def refused(source, label, target, *options):
        before = sorted(tmp_path.rglob("*"))
        done = export(source, label, target, *options)
        assert (done.returncode, done.stdout, sorted(tmp_path.rglob("*"))) == (1, "", before)
        return done.stderr

    assert "knows no label 'telephone'; known: computer, jarvis, umbrella" in refused(config, "telephone", output)
    assert "there is no configuration" in refused(tmp_path, "computer", output)
    assert "end in .tflite" in refused(config, "computer", tmp_path / "word.onnx")
    assert "no folder" in refused(config, "computer", tmp_path / "nowhere" / "word.tflite")
    assert "holds no taught words; give --model" in refused(device.bundle, "computer", output)
    assert "--model goes with" in refused(config, "computer", output, "--model", config)
    output.write_bytes(b"mine")
    assert "--force replaces it" in refused(config, "computer", output)
    assert output.read_bytes() == b"mine"
    assert export(config, "computer", output, "--force").returncode == 0
    assert output.stat().st_size > 1_000
    # A device with another front end, one that was taught nothing yet, and one whose state is damaged.
    (tmp_path / "words.toml").write_text('[device]\nname = "x"\nstate = "fresh"\n[model]\nbundle = "base"\n')
    said = refused(tmp_path / "words.toml", "computer", output, "--force")
    assert "front end 'base', but openWakeWord with Google's speech embedding" in said
    assert "auricle-export build linear --features speech_embedding.frontend" in said
    fresh = (tmp_path / "words.toml").read_text().replace('"base"', f'"{device.bundle}"')
    (tmp_path / "words.toml").write_text(fresh)
    assert "has learned nothing yet" in refused(tmp_path / "words.toml", "computer", output, "--force")
    (tmp_path / "fresh").mkdir()
    (tmp_path / "fresh" / "model.safetensors").write_bytes(b"x" * 100)
    assert "is damaged" in refused(tmp_path / "words.toml", "computer", output, "--force")
