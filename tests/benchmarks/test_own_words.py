"""Wake words taught by takes of one person: who teaches, what is listened to, and figures from teaching to misses."""

import json

import numpy as np
import pytest

from benchmarks.command import BenchmarkError
from benchmarks.listening.material import RATE_HZ, WORD_DB, Half, make_stream
from benchmarks.listening.measurement import Listened, hits
from benchmarks.listening.speech import speech_in_noise
from benchmarks.own_words import CLEAN_DB, SNRS_DB, devices, threshold
from edge_client.audio.recordings import encode_wave, speaker_of
from edge_client.config.sections import DetectorConfig
from tests.support.checkout import DATA, run_python
from tests.support.sounds import melody, write_words


@pytest.fixture
def folder(tmp_path):
    """Melodies that stand for words, eight of each of two people, and others that stand for connected speech."""
    write_words(tmp_path / "words", ("yes", "no"), 8)
    (tmp_path / "speech" / "reader").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for number in range(5):
        said = np.concatenate([melody(sound, rng) for sound in ("stop", "up", "stop", "down")]).astype(np.float32)
        (tmp_path / "speech" / "reader" / f"{number}.wav").write_bytes(encode_wave(said, RATE_HZ))
    return tmp_path


def test_one_person_teaches_a_word_and_says_the_other_takes_and_who_teaches_changes(folder):
    first, second = devices(folder / "words", 2, 3, seed=0)
    for device in (first, second):
        for word, takes in device.takes.items():
            (teacher,) = {speaker_of(path) for path in takes}
            assert len(takes) == 3
            for clip in device.said:
                assert clip.path not in takes
                if clip.label == word:
                    assert (clip.by == "owner") == (speaker_of(clip.path) == teacher)
        assert sorted((clip.label, clip.by) for clip in device.said) == sorted(
            [(word, "owner") for word in ("yes", "no")] + [(word, "others") for word in ("yes", "no") for _ in range(4)]
        )
    for word in ("yes", "no"):
        assert {speaker_of(path) for path in first.takes[word]} != {speaker_of(path) for path in second.takes[word]}
    with pytest.raises(BenchmarkError, match="nobody has more than 4 takes of"):
        devices(folder / "words", 1, 4, seed=0)


def test_speech_fills_the_hours_at_one_level_in_noise_at_the_ratio_that_is_asked(folder):
    half = Half((), (np.random.default_rng(1).normal(size=RATE_HZ).astype(np.float32),))
    seconds = 18.0
    clean, noisy = (
        np.concatenate(list(speech_in_noise(folder / "speech", half, snr_db, seconds / 3600, seed=0)))
        for snr_db in (CLEAN_DB, 10.0)
    )
    assert len(clean) == len(noisy) == round(seconds * RATE_HZ)
    level_db = 20 * np.log10(np.sqrt(np.mean(np.square(noisy - clean))))
    assert level_db == pytest.approx(WORD_DB - 10, abs=0.2)
    assert np.abs(clean).max() > 10 ** (WORD_DB / 20)
    with pytest.raises(BenchmarkError, match="less than 1 hours of speech"):
        list(speech_in_noise(folder / "speech", half, 10.0, 1.0, seed=0))


def test_the_threshold_is_the_lowest_with_so_few_alarms_of_the_word():
    at_s = np.arange(0.25, 3600.1, 0.25)
    scores = np.zeros((len(at_s), 2), np.float32)
    scores[1000], scores[5000], scores[9000] = (0.9, 0.0), (0.99, 0.0), (0.0, 0.95)
    talk = Listened(("yes", "no"), (), scores, at_s, DetectorConfig(refractory_s=1.0), 3600.0)
    assert 0.9 < threshold(talk, "yes", 1.0) <= 0.99 < threshold(talk, "yes", 0.1)
    assert threshold(talk, "no", 1.0) < 0.5 < 0.95 < threshold(talk, "no", 0.1)


def test_scores_that_are_no_probabilities_have_thresholds_of_their_own():
    at_s = np.arange(0.25, 3600.1, 0.25)
    scores = np.linspace(-900.0, -100.0, len(at_s), dtype=np.float32)[:, None]
    scores[[1000, 5000]] = [[-2.0], [3.0]]
    talk = Listened(("yes",), (), scores, at_s, DetectorConfig(refractory_s=1.0), 3600.0, release=1.0)
    assert -2.0 < threshold(talk, "yes", 1.0) <= 3.0 < threshold(talk, "yes", 0.1) < 3.001


@pytest.mark.slow
def test_a_verifier_of_another_engine_hears_what_its_networks_tell_apart(folder):
    tf = pytest.importorskip("tensorflow")
    from benchmarks.openwakeword import OpenWakeWord

    rng = np.random.default_rng(0)
    waves = np.cos(np.outer(np.arange(640), np.linspace(0.1, 1.2, 32)))[:, None].astype(np.float32)
    mixing = rng.normal(size=(76, 32, 1, 96)).astype(np.float32)
    made = {
        "melspectrogram": lambda x: tf.math.log(1 + tf.abs(tf.nn.conv1d(x[..., None], waves, 160, "VALID")))[:, None],
        "embedding_model": lambda x: tf.nn.conv2d(x, mixing, 8, "VALID"),
    }
    for (name, network), shape in zip(made.items(), ([1, None], [1, None, 32, 1]), strict=True):
        module = tf.Module()
        module.run = tf.function(network, [tf.TensorSpec(shape, tf.float32)])
        tf.saved_model.save(module, folder / name, signatures=module.run.get_concrete_function())
        (folder / f"{name}.tflite").write_bytes(tf.lite.TFLiteConverter.from_saved_model(str(folder / name)).convert())
    (owner,) = devices(folder / "words", 1, 3, seed=0)
    room = (rng.normal(size=RATE_HZ).astype(np.float32),)
    engine = OpenWakeWord(
        folder, [owner], room, lambda half, snr_db: speech_in_noise(folder / "speech", half, snr_db, 0.005, 0)
    )
    stream = make_stream(Half(tuple(owner.said), room), CLEAN_DB, np.inf, rng)
    found, _ = hits(stream.words, engine.heard([stream.samples])(0).at(-1.0))
    assert len(found) >= 0.8 * len(stream.words)


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "gsc_v2_test").is_dir(), reason=f"there are no recordings in {DATA}")
def test_words_are_taught_and_measured_in_speech_clean_and_in_noise(folder, pretrained_bundle):
    chosen = ["--front-ends", "base", "--bundles", pretrained_bundle.parent, "--data", DATA, "--devices", "2"]
    given = ["--words", folder / "words", "--speech", folder / "speech", "--hours", "0.005", "--takes", "2"]
    printed = run_python("-m", "benchmarks.own_words", *map(str, [*given, *chosen]), "--json")
    found = json.loads(printed.splitlines()[-1])
    assert {(row["snr_db"], row["word"]) for row in found["rows"]} == {(s, w) for s in SNRS_DB for w in ("yes", "no")}
    for row in found["rows"]:
        for who in ("owner", "others"):
            assert 0 <= row[f"{who} at 1"] <= row[f"{who} at 0.1"] <= 100
        assert row["alarms an hour by own threshold"] >= 0
