"""`auricle-export measure`: what a bundle costs on this machine, without TensorFlow."""

import json
from functools import partial

import pytest

from model_export.epoch_and_latency import measure
from model_export.errors import ExportError
from tests.support.checkout import run_module, without_tensorflow

FIGURES = {
    *("runtime", "train_seconds_per_epoch", "feature_seconds_per_epoch", "inference_ms_median", "inference_ms_p95"),
    *("with_features_ms_median", "with_features_ms_p95", "hop_ms_median", "hop_ms_p95", "peak_mb"),
}


@pytest.fixture
def export(tmp_path):
    """Run `auricle-export` where importing TensorFlow, Keras or Pillow is an error."""
    return partial(run_module, "model_export.cli", env=without_tensorflow(tmp_path, "PIL"))


def test_people_and_programs_read_what_a_bundle_costs(export, embedding_bundles):
    bundle = embedding_bundles / "embedding.auricle"
    result = export("measure", bundle, "--samples", 40)
    assert result.returncode == 0, result.stderr
    starts = ("1 thread, ", "an epoch of 1,000 clips: ", "a clip: ", "a hop while listening: ")
    assert all(start in line for start, line in zip(starts, result.stdout.splitlines(), strict=True))
    figures = json.loads(export("measure", bundle, "--threads", 2, "--samples", 40, "--json").stdout)
    assert set(figures) == FIGURES
    assert all(value > 0 for name, value in figures.items() if name != "runtime")
    assert figures["with_features_ms_median"] > figures["inference_ms_median"]  # the front end is a network itself


def test_what_is_no_bundle_and_no_number_is_refused(tmp_path, export):
    result = export("measure", tmp_path / "none.auricle")
    assert result.returncode == 1
    assert "none.auricle is not a readable model bundle" in result.stderr
    assert "Traceback" not in result.stderr
    with pytest.raises(ExportError, match="at least 1, not 0, 1000 and 200"):
        measure(tmp_path / "none.auricle", threads=0)
