"""The public classifier: it learns, keeps what it learned, and says what it cannot use."""

import re

import numpy as np
import pytest

from edge_client.api import AuricleError, Classifier, EdgeError
from tests.support.sounds import write_clips

WORDS = ("no", "stop", "yes")


@pytest.fixture(scope="module")
def speech(tmp_path_factory):
    """Paths and labels to learn from, and others to be judged by."""
    folder, found = tmp_path_factory.mktemp("speech"), []
    for seed, count in ((1, 8), (2, 4)):
        for label in WORDS:
            write_clips(folder / str(seed), label, count, seed=seed)
        paths = sorted((folder / str(seed)).glob("*/*.wav"))
        found += [paths, [path.parent.name for path in paths]]
    return found


@pytest.fixture(scope="module")
def taught(speech):
    return Classifier("cnn2").fit(speech[0], speech[1])


def test_it_recognises_sounds_that_it_never_heard(taught, speech):
    *_, paths, labels = speech
    assert taught.labels == WORDS
    assert np.mean(np.array(taught.predict(paths)) == labels) > 0.9
    probabilities = taught.probabilities(paths)
    assert (probabilities.dtype, probabilities.shape) == (np.float32, (len(paths), 3))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)


def test_equal_input_gives_equal_weights_and_fit_forgets(speech):
    paths, labels, others, _ = speech
    first = Classifier("cnn2").fit(paths, labels, epochs=2)
    again = Classifier("cnn2").fit(paths, labels[::-1], epochs=2).fit(paths, labels, epochs=2)
    np.testing.assert_array_equal(again.probabilities(others), first.probabilities(others))
    other = Classifier("cnn2", seed=1).fit(paths, labels, epochs=2)
    assert (other.probabilities(others) != first.probabilities(others)).any()


def test_what_was_saved_is_loaded_and_fits_its_bundle_alone(taught, speech, tmp_path):
    taught.save(tmp_path / "words.safetensors")
    loaded = Classifier("cnn2").load(tmp_path / "words.safetensors")
    assert loaded.labels == WORDS
    np.testing.assert_array_equal(loaded.probabilities(speech[2]), taught.probabilities(speech[2]))
    with pytest.raises(EdgeError, match="another bundle"):
        Classifier("cnn1").load(tmp_path / "words.safetensors")
    (tmp_path / "no.safetensors").write_bytes(b"nothing")
    with pytest.raises(AuricleError):
        Classifier("cnn2").load(tmp_path / "no.safetensors")


def test_arrays_of_any_length_are_clips_too(taught):
    assert len(taught.predict([np.zeros(7), np.ones(3 * taught.clip_samples, np.int16)])) == 2
    assert taught.predict([]) == []


@pytest.mark.parametrize(
    ("clips", "labels", "told"),
    [
        (["a.wav", "b.wav"], ["x"], "2 clips and 1 labels"),
        ([], [], "0 clips and 0 labels"),
        (["nowhere.wav"], ["x"], "nowhere.wav"),
        ("a.wav", "12345", "'a.wav' is a single path; give a list"),
        ([np.zeros((2, 3))], ["x"], "float64 of shape (2, 3); give finite floats [samples]"),
        ([np.array([np.nan])], ["x"], "give finite floats"),
        ([np.zeros(9)] * 40, [str(number) for number in range(40)], "capacity"),
    ],
)
def test_what_cannot_be_used_is_named_and_changes_nothing(taught, clips, labels, told):
    with pytest.raises(AuricleError, match=re.escape(told)):
        taught.fit(clips, labels)
    assert taught.labels == WORDS


def test_one_that_knows_nothing_says_so():
    with pytest.raises(EdgeError, match="call fit or load first"):
        Classifier("cnn1").predict([np.zeros(9)])
