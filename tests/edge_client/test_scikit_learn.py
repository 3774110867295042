"""The classifier in scikit-learn's hands: its own checks, copies, and a search over parameters."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from aggregator_server import api as aggregator
from edge_client import api
from edge_client.api import Classifier
from tests.support.checkout import run_python
from tests.support.sounds import write_clips

EAGER = "a bundle is opened by the constructor, so that a wrong name is refused there"
LENGTH = "clips have any length; the network's is n_features_in_, known before fit"
NAMES = "labels are the names of sounds, always str, and any value has one"
SAMPLES = "clips are named so; samples are numbers or paths, never objects or sparse matrices"
NOT_APPLICABLE = {
    "check_no_attributes_set_in_init": EAGER,
    "check_do_not_raise_errors_in_init_or_set_params": EAGER,
    "check_set_params": EAGER,
    "check_n_features_in": LENGTH,
    "check_n_features_in_after_fitting": LENGTH,
    "check_estimators_empty_data_messages": LENGTH,
    "check_fit2d_predict1d": "an array [samples] is one clip",
    "check_estimators_partial_fit_n_features": LENGTH + "; partial_fit takes new labels at any time, not at first",
    "check_estimators_unfitted": "NotFittedError is the package's own, with the same bases; a device has no other",
    "check_fit_score_takes_y": SAMPLES,
    "check_dtype_object": SAMPLES,
    "check_estimator_sparse_tag": SAMPLES,
    "check_estimator_sparse_array": SAMPLES,
    "check_estimator_sparse_matrix": SAMPLES,
    "check_estimators_pickle": NAMES + "; predictions are compared as numbers; tested below",
    "check_methods_sample_order_invariance": NAMES,
    "check_methods_subset_invariance": NAMES,
    "check_fit_idempotent": NAMES,
    "check_classifiers_one_label": NAMES,
    "check_classifiers_classes": NAMES,
    "check_classifiers_train": NAMES,
    "check_classifiers_regression_target": NAMES,
    "check_supervised_y_no_nan": NAMES,
    "check_supervised_y_2d": NAMES,
    "check_classifier_data_not_an_array": NAMES,
}
SMALL = {"bundle": "cnn1", "epochs": 2, "copies": 1}


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sounds")
    for label in ("yes", "no"):
        write_clips(folder, label, 6, seed=1)
    return folder


@pytest.fixture(scope="module")
def fitted(recordings):
    model = Classifier(**SMALL)
    return model.fit(*model.read_folder(recordings))


@pytest.mark.filterwarnings("ignore:Estimator Classifier does not inherit")
def test_it_passes_scikit_learns_checks_but_those_that_do_not_apply():
    found = check_estimator(Classifier(**SMALL), on_fail=None, on_skip=None)
    failed = {check["check_name"] for check in found if check["status"] == "failed"}
    assert failed <= set(NOT_APPLICABLE)
    assert sum(check["status"] == "passed" for check in found) > 20


def test_a_search_over_parameters_takes_it(recordings):
    model = Classifier(**SMALL)
    clips, labels = model.read_folder(recordings)
    assert len(cross_val_score(model, clips, labels, cv=2, error_score="raise")) == 2
    search = GridSearchCV(model, {"epochs": [1, 8]}, cv=2, error_score="raise").fit(clips, labels)
    assert search.predict(clips).shape == (12,)


def test_copies_keep_parameters_and_pickles_what_was_learned(fitted, recordings):
    clips, _ = fitted.read_folder(recordings)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(clips), fitted.predict_proba(clips))
    assert repr(clone(fitted)) == repr(fitted) == "Classifier(bundle='cnn1', epochs=2, copies=1)"
    assert len(clone(fitted).classes_) == 0
    with pytest.raises(ValueError, match="no parameter 'depth'"):
        fitted.set_params(depth=3)


def test_one_path_a_list_and_arrays_are_the_same_clips(fitted, recordings):
    path = min((recordings / "yes").iterdir())
    clip = fitted.read([path])
    wanted = fitted.predict_proba(clip)
    for given in (path, str(path), [str(path)], np.array([str(path)]), clip[0], [clip[0]], clip.tolist()):
        np.testing.assert_allclose(fitted.predict_proba(given), wanted, atol=1e-6)
    assert fitted.predict([path, clip[0][:4000]]).shape == (2,)


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (lambda model: model.load("missing"), FileNotFoundError),
        (lambda model: model.load("/"), OSError),
        (lambda model: model.save("/dev/null/file"), OSError),
        (lambda model: model.predict("nowhere.wav"), api.EdgeError),
        (lambda model: model.predict(3), ValueError),
        (lambda model: model.predict([[1.0, float("nan")]]), ValueError),
        (lambda model: model.fit(["a.wav"], None), ValueError),
        (lambda _: Classifier("cnn1").predict(np.zeros((1, 9))), AttributeError),
        (lambda _: Classifier("missing"), api.AuricleError),
        (lambda _: aggregator.average_scores([], [[0]], np.zeros(1, np.int64)), aggregator.AggregationError),
    ],
)
def test_errors_are_of_one_tree_and_of_the_class_that_one_expects(fitted, wrong, kind):
    assert api.AuricleError is aggregator.AuricleError
    with pytest.raises(kind) as caught:
        wrong(fitted)
    assert isinstance(caught.value, api.AuricleError)


@pytest.mark.parametrize("bundle", ["base", "cnn1"])
def test_the_runtime_greets_nobody_and_standard_error_is_heard_afterwards(bundle):
    code = f"import os; from edge_client.api import Classifier; Classifier({bundle!r}); os.write(2, b'heard'); "
    run = "import subprocess, sys; d = subprocess.run([sys.executable, '-c', sys.argv[1]], capture_output=True); "
    assert run_python("-c", run + "print(d.stderr.decode())", code) == "heard\n"
