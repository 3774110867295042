"""`auricle-export measure`: what a bundle costs on this machine, without TensorFlow."""

import json
import os
import subprocess
import sys

import pytest

from model_export.errors import ExportError
from model_export.speed import measure
from tests.support.checkout import ROOT

# No part of TensorFlow can be imported here, nor by the process that measures, which inherits the variable.
HIDDEN = "import sys; from model_export.cli import main; sys.exit(main())"
FIGURES = {
    *("runtime", "train_seconds_per_epoch", "feature_seconds_per_epoch", "inference_ms_median", "inference_ms_p95"),
    *("with_features_ms_median", "with_features_ms_p95", "hop_ms_median", "hop_ms_p95", "peak_mb"),
}


@pytest.fixture
def without_tensorflow(tmp_path):
    """Run `auricle-export` where importing TensorFlow, Keras or Pillow is an error."""
    for name in ("tensorflow", "keras", "PIL"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('it is not here')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    def export(*arguments):
        command = [sys.executable, "-c", HIDDEN, *map(str, arguments)]
        environment = os.environ | {"PYTHONPATH": path}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    return export


def test_people_and_programs_read_what_a_bundle_costs(without_tensorflow, embedding_bundles):
    bundle = embedding_bundles / "embedding.auricle"
    result = without_tensorflow("measure", bundle, "--samples", 40)
    assert result.returncode == 0, result.stderr
    starts = ("1 thread, ", "an epoch of 1,000 clips: ", "a clip: ", "a hop while listening: ")
    assert all(start in line for start, line in zip(starts, result.stdout.splitlines(), strict=True))
    figures = json.loads(without_tensorflow("measure", bundle, "--threads", 2, "--samples", 40, "--json").stdout)
    assert set(figures) == FIGURES
    assert all(value > 0 for name, value in figures.items() if name != "runtime")
    assert figures["with_features_ms_median"] > figures["inference_ms_median"]  # the front end is a network itself


def test_a_bundle_of_speech_is_measured_too(transcribing_bundle):
    assert set(measure(transcribing_bundle, samples=20, clips=2)) == FIGURES


def test_what_is_no_bundle_and_no_number_is_refused(tmp_path, without_tensorflow):
    result = without_tensorflow("measure", tmp_path / "none.auricle")
    assert result.returncode == 1
    assert "none.auricle is not a readable model bundle" in result.stderr
    assert "Traceback" not in result.stderr
    with pytest.raises(ExportError, match="at least 1, not 0, 1000 and 200"):
        measure(tmp_path / "none.auricle", threads=0)
