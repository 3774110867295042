"""The public classifier on real recordings: it learns, goes on, keeps what it learned, and describes new sounds."""

import numpy as np
import pytest

from edge_client.api import AuricleError, Classifier, EdgeError
from fleet_protocol.errors import LabelError
from tests.support.checkout import DATA

RECORDINGS = DATA / "gsc_v2_test"
WORDS = ("no", "stop", "yes")
pytestmark = pytest.mark.skipif(not RECORDINGS.is_dir(), reason=f"there is no {RECORDINGS}; set AURICLE_DATA")


@pytest.fixture(scope="module")
def speech():
    """Clips and labels to learn from, and others to be judged by."""
    clips, labels = Classifier("cnn1").read_folder(RECORDINGS, WORDS, 50)
    labels = np.array(labels)
    train = np.concatenate([np.flatnonzero(labels == word)[:20] for word in WORDS])
    test = np.setdiff1d(np.arange(len(labels)), train)
    return clips[train], labels[train], clips[test], labels[test]


@pytest.fixture(scope="module")
def taught(speech):
    return Classifier("base").fit(*speech[:2])


def test_it_recognises_words_of_people_that_it_never_heard(taught, speech):
    *_, clips, labels = speech
    assert tuple(taught.classes_) == WORDS
    assert taught.score(clips, labels) > 0.9
    probabilities = taught.predict_proba(clips)
    assert (probabilities.dtype, probabilities.shape) == (np.float32, (len(clips), 3))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert (taught.predict(clips) == np.array(WORDS)[probabilities.argmax(axis=1)]).all()


def test_equal_input_gives_equal_weights_and_fit_forgets(speech):
    clips, labels, *_ = speech
    first = Classifier("cnn2", epochs=2).fit(clips, labels)
    again = Classifier("cnn2", epochs=2).fit(clips, labels[::-1]).fit(clips, labels)
    for name, array in first.weights.items():
        np.testing.assert_array_equal(again.weights[name], array)
    other = Classifier("cnn2", epochs=2, seed=1).fit(clips, labels)
    assert any((other.weights[name] != array).any() for name, array in first.weights.items())


def test_learning_goes_on_and_new_labels_get_outputs(speech):
    clips, labels, others, wanted = speech
    known = labels != "yes"
    model = Classifier("base", ("stop", "no")).partial_fit(clips[known], labels[known], epochs=10)
    before = model.score(others, wanted)
    model.partial_fit(clips, labels, epochs=10)
    assert tuple(model.classes_) == ("stop", "no", "yes")
    assert model.score(others, wanted) > max(before + 0.2, 0.9)


def test_what_was_saved_is_loaded_and_fits_its_bundle_alone(taught, speech, tmp_path):
    taught.save(tmp_path / "words.safetensors")
    loaded = Classifier("base").load(tmp_path / "words.safetensors")
    assert tuple(loaded.classes_) == WORDS
    np.testing.assert_array_equal(loaded.predict_proba(speech[2]), taught.predict_proba(speech[2]))
    with pytest.raises(EdgeError, match="another bundle"):
        Classifier("cnn2").load(tmp_path / "words.safetensors")
    (tmp_path / "no.safetensors").write_bytes(b"nothing")
    with pytest.raises(AuricleError):
        Classifier("base").load(tmp_path / "no.safetensors")


def test_a_bundle_is_written_that_begins_with_what_was_learned(taught, speech, tmp_path):
    taught.save_bundle(tmp_path / "words.auricle")
    again = Classifier(tmp_path / "words.auricle", WORDS)
    assert again.score(*speech[2:]) == taught.score(*speech[2:])


def test_what_cannot_be_used_is_named(taught, speech, tmp_path):
    clips, labels, *_ = speech
    with pytest.raises(EdgeError, match="60 clips and 59 labels"):
        taught.fit(clips, labels[:-1])
    with pytest.raises(EdgeError, match="knows no label"):
        Classifier("cnn1").predict(clips)
    with pytest.raises(EdgeError, match=r"nowhere\.wav"):
        taught.predict([tmp_path / "nowhere.wav"])
    with pytest.raises(EdgeError, match=r"shape \(1, 60, 14400\)"):
        taught.predict(clips[None])
    with pytest.raises(EdgeError, match="NaN"):
        taught.predict(np.full_like(clips, np.nan))
    with pytest.raises(EdgeError, match="bark"):
        taught.read_folder(RECORDINGS, ["bark"])
    with pytest.raises(LabelError, match="capacity"):
        Classifier("cnn1", [str(number) for number in range(33)])
    assert tuple(taught.classes_) == WORDS, "what is refused changes nothing"


def test_a_sound_is_described_to_an_aggregator(taught, speech):
    clips, labels, *_ = speech
    others = taught.read_folder(RECORDINGS, ("go", "left"), 5)
    public = taught.make_public_set(*others, ("left", "go"))
    assert (public.class_ids, public.labels.tolist()) == (("left", "go"), [1] * 5 + [0] * 5)
    found = taught.describe(clips, labels, public, ["yes"])
    assert found["yes"]["prototype"].shape == public.features.shape[1:]
    small = Classifier("cnn1", epochs=2).fit(clips, labels)
    cepstra = small.make_public_set(*others)
    assert small.score_public_set(cepstra).shape == (10, 3)
    found = small.describe(clips, labels, cepstra, ["no", "yes"])
    assert found["no"]["profile"].shape == (10,)
    assert found["yes"]["impressions"].shape == (32, *cepstra.features.shape[1:])
    with pytest.raises(LabelError, match="go"):
        taught.make_public_set(*others, ["left"])
    with pytest.raises(AuricleError, match="compute features differently"):
        taught.score_public_set(cepstra)
