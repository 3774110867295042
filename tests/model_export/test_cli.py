"""`auricle-export`: builds what it says, and explains what it cannot do."""

import contextlib
from functools import partial

import numpy as np
import pytest

from edge_client.audio.recordings import Recordings
from edge_client.features.mfcc import Mfcc
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.feature_settings import preset
from model_export.errors import OperatorError
from model_export.graph_operators import operators_by_signature
from tests.support.checkout import run_module, run_python
from tests.support.flips import flips
from tests.support.sounds import write_clips

export = partial(run_module, "model_export.cli")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Two labels with six clips each."""
    folder = tmp_path_factory.mktemp("recordings")
    for label in ("yes", "no"):
        write_clips(folder, label, 6, seed=0)
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory, recordings):
    """A bundle, with all options in use."""
    path = tmp_path_factory.mktemp("models") / "model.auricle"
    options = "build ann3 --features gudur --capacity 6 --batch 8 --width 0.5 --seed 5"
    result = export(*options.split(" "), "--recordings", recordings, "-o", path)
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{path}\n", "")
    return path


def test_a_bundle_has_the_options_and_the_recordings_statistics(built, recordings):
    manifest = read_bundle(built).manifest
    assert (manifest.capacity, manifest.batch, manifest.seed) == (6, 8, 5)
    assert manifest.options == {"width": "0.5"}
    source = Recordings(recordings, preset("gudur"))
    clips = source.load([path for label in source.labels() for path in source.clips(label)])
    features = Mfcc(preset("gudur"))(clips)
    np.testing.assert_allclose(manifest.mean, features.mean((0, 1)), atol=1e-3)
    np.testing.assert_allclose(manifest.std, features.std((0, 1)), atol=1e-3)


def test_inspect_prints_manifest_and_operators(bundles):
    result = export("inspect", bundles["cnn2"])
    assert result.returncode == 0
    assert '"architecture": "cnn2"' in result.stdout
    assert "\ntrain: ADD" in result.stdout
    assert "cnn2: training takes 0.62 million multiply-adds per sample: at least 0.7 s per 1,000" in result.stdout
    assert "CONV_2D" in result.stdout


@pytest.mark.slow
def test_a_graph_that_no_device_can_run_is_an_error(tmp_path):
    said = run_python("-m", "tests.support.flex_graph", str(tmp_path / "flex.tflite"))
    assert "no form in built-in operators" in said
    result = export("inspect", tmp_path / "flex.tflite")
    assert result.returncode == 1
    assert "CUSTOM:FlexReluGrad 1" in result.stdout
    assert "needs operators that no device's runtime has (main: CUSTOM:FlexReluGrad)" in result.stderr


def test_a_damaged_graph_is_said_to_be_damaged(bundles):
    graph = read_bundle(bundles["cnn1"]).graph
    for damaged in flips(graph, 500, seed=0):
        with contextlib.suppress(OperatorError):
            operators_by_signature(damaged)
    with pytest.raises(OperatorError, match="is damaged"):
        operators_by_signature(graph[: len(graph) // 2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "cnn2", "--capacity", "1", "-o", "x.auricle"], "--capacity 2 or more"),
        (["build", "cnn2", "--batch", "0", "-o", "x.auricle"], "not --batch 0"),
        (["build", "cnn2", "--width", "0", "-o", "x.auricle"], "--width 0 is not from 0.01 to 4"),
        (["build", "cnn2", "--seed", "-1", "-o", "x.auricle"], "--seed must be from 0 to 4294967295, not -1"),
        (["build", "cnn2", "--recordings", "docs", "-o", "x.auricle"], "holds no clip that can be used"),
        (["inspect", "pyproject.toml"], "not a TFLite graph"),
        (["inspect", "absent.auricle"], "absent.auricle"),
        (["inspect", "/dev/zero"], "/dev/zero is no regular file"),
    ],
)
def test_what_cannot_be_done_is_explained_in_a_line(tmp_path, arguments, message):
    arguments = [str(tmp_path / a) if a in ("x", "x.auricle") else a for a in arguments]
    result = export(*arguments)
    assert result.returncode == 1
    assert message in result.stderr
    assert result.stderr.startswith("auricle-export: ")
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
