"""`auricle-export` and the speech embedding: which package it takes, what the graph costs, the file with words."""

import importlib.util
import json
import shutil
import sys

import pytest

from fleet_protocol.bundle import BACKGROUND, read_bundle
from fleet_protocol.feature_settings import FrozenNetwork
from model_export.errors import ExportError
from model_export.front_ends import find_front_end
from model_export.graph_operators import operators_by_signature
from model_export.pretraining.front_end_file import read
from model_export.speech_embedding.package import NAME, read_convolutions, settings
from tests.support.checkout import ROOT, run_module, run_python
from tests.support.sounds import write_clips
from tests.support.speech_package import models


def test_the_graph_has_built_in_operators_that_are_fast_on_32_bit_arm(speech_bundles):
    found = read_bundle(speech_bundles / "linear.auricle").manifest.feature_settings
    graph = found.network.data
    (operators,) = operators_by_signature(graph).values()
    assert set(operators) <= {
        *("CONV_2D", "ADD", "LEAKY_RELU", "MAX_POOL_2D", "CONCATENATION", "STRIDED_SLICE", "PAD", "RESHAPE"),
        *("EXPAND_DIMS", "SQUEEZE"),
    }
    assert found.digest == settings(FrozenNetwork.of(graph)).digest


def test_without_the_package_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyopen_wakeword", None)
    assert importlib.util.find_spec("pyopen_wakeword") is None
    with pytest.raises(ExportError, match=r"pip install 'auricle\[speech\]'"):
        find_front_end(NAME, "float32")


def test_another_file_than_the_known_one_is_refused_by_its_digest(monkeypatch, tmp_path):
    fake = tmp_path / "pyopen_wakeword"
    shutil.copytree(models(), fake / "models")
    (fake / "__init__.py").touch()
    network = fake / "models" / "embedding_model.tflite"
    network.write_bytes(network.read_bytes()[:-1] + b"!")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ExportError, match=r"digest [0-9a-f]{64}, but c0aea21e.*pyopen-wakeword==1\.1\.0"):
        read_convolutions()
    network.unlink()
    with pytest.raises(ExportError, match=r"cannot be read .*pyopen-wakeword==1\.1\.0"):
        read_convolutions()


def test_the_int8_form_alone_needs_recordings_and_says_so():
    with pytest.raises(ExportError, match="auricle-export speech-embedding --data FOLDER"):
        find_front_end(NAME, "int8")


@pytest.mark.slow
def test_with_recordings_it_becomes_a_file_that_knows_words(speech_bundles, tmp_path):
    for label in ("yes", "no", "up", "down"):
        write_clips(tmp_path / "words", label, 6, seed=0)
    path = tmp_path / "ears.frontend"
    options = ["--data", str(tmp_path / "words"), "--leave-out-words", "down", "--json", "-o", str(path)]
    printed = json.loads(run_python("-m", "model_export.cli", "speech-embedding", *options))
    file = read(path)
    assert printed["corpus"]["words"] == list(file.words) == ["no", "up", "yes"]
    assert printed["network"]["multiply_adds_per_hop"] == 5_612_544 < 6_000_000
    assert file.statistics["samples"].shape == (3, 6, 96)
    assert len(file.int8) < len(file.float32) / 3
    assert "Apache" in file.description["attribution"]
    without = read_bundle(speech_bundles / "linear.auricle").manifest.feature_settings
    assert file.float32 == without.network.data  # converted in another process: the digests of two builds agree
    chosen = ["--features", str(path), "--front-end-precision", "int8", "-o", str(tmp_path / "int8.auricle")]
    run_python("-m", "model_export.cli", "build", "linear", *chosen)
    manifest = read_bundle(tmp_path / "int8.auricle").manifest
    assert manifest.background == ("no", "up", "yes", *BACKGROUND)
    assert manifest.embedding_statistics.words == ("no", "up", "yes")
    assert manifest.feature_settings.shape == (1, 96)


def test_what_cannot_be_used_is_refused_at_once(tmp_path):
    write_clips(tmp_path / "words", "yes", 2, seed=0)
    for options, said in (
        (["--data", "words", "-o", "ears.zip"], "must end in .frontend"),
        (["--data", "words", "--seed", "-1", "-o", "ears.frontend"], "--seed must be at least 0"),
        (["--data", "words", "-o", "nowhere/ears.frontend"], "no folder nowhere"),
        (["--data", "nothing", "-o", "ears.frontend"], "nothing holds no recordings"),
    ):
        environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
        done = run_module("model_export.cli", "speech-embedding", *options, cwd=tmp_path, env=environment)
        assert done.returncode == 1
        assert said in done.stderr
