"""Plain files of a bundle: they answer as the bundle does, and C holds the same bytes."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

from edge_client.api import Classifier
from edge_client.audio.recordings import Recordings
from edge_client.features.front_end import open_front_end
from edge_client.model.interpreter import open_network
from fleet_protocol.bundle import read_bundle
from fleet_protocol.ready_bundles import find_bundle
from model_export.plain import header
from tests.support.checkout import ROOT, run_module, run_python, without_tensorflow
from tests.support.sounds import write_clips

WORDS = ("no", 'yes "loud"')
PROGRAM = """\
#include <stdio.h>
#include "model.h"
int main(void) {
    if ((uintptr_t)auricle_model % 16) return 3;
    for (int i = 0; i < AURICLE_LABELS; i++) fprintf(stderr, "%s\\n", auricle_labels[i]);
    return fwrite(auricle_model, 1, auricle_model_length, stdout) != sizeof auricle_model;
}
"""


def in_c(folder, compiler="gcc", *options):
    """Compile a header with a program, run it, and return the bytes and labels that it holds."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed (Debian: apt-get install gcc libc6-dev)")
    (folder / "program.c").write_text(PROGRAM)
    command = [compiler, *options, "-Wall", "-Wextra", "-Werror", "-I", folder, "-o", folder / "program"]
    subprocess.run([*command, folder / "program.c"], check=True)
    done = subprocess.run([folder / "program"], capture_output=True, check=True)
    return done.stdout, done.stderr.decode().splitlines()


def test_a_header_holds_bytes_and_labels_as_c_has_them(tmp_path):
    data = bytes(range(256)) * 3 + b"\0"
    labels = ("Türklingel", 'a "b" \\ c')
    (tmp_path / "model.h").write_text(header("x.tflite */", {"model": data}, labels, {"FRAMES": 20}))
    assert in_c(tmp_path, "gcc", "-std=c11", "-pedantic") == (data, list(labels))


def test_a_finished_model_becomes_a_header_without_tensorflow(tmp_path):
    network = read_bundle(find_bundle("base")).manifest.networks[0]
    (tmp_path / "net.tflite").write_bytes(network)
    command = [sys.executable, "-m", "model_export.cli", "plain", tmp_path / "net.tflite", "-o", tmp_path / "out"]
    command += ["--labels", "a,b"]
    subprocess.run(command, cwd=ROOT, env=without_tensorflow(tmp_path), check=True, stdout=subprocess.DEVNULL)
    assert in_c(tmp_path / "out") == (network, ["a", "b"])
    assert (tmp_path / "out" / "model.tflite").read_bytes() == network


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A classifier that was taught two sounds, its file, and clips."""
    folder = tmp_path_factory.mktemp("learned")
    write_clips(folder, "no", 12, seed=1)
    write_clips(folder, "yes", 12, seed=1)
    classifier = Classifier("cnn1")
    paths = sorted(folder.glob("*/*.wav"))
    clips = Recordings(folder, read_bundle(find_bundle("cnn1")).manifest.feature_settings).load(paths)
    classifier.fit(list(clips), [WORDS[path.parent.name == "yes"] for path in paths], epochs=20)
    classifier.save(folder / "words.safetensors")
    return classifier, folder / "words.safetensors", clips


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-4), ("int8", 0.15)])
def test_a_plain_model_answers_as_the_classifier_does(learned, tmp_path, precision, tolerance):
    classifier, words, clips = learned
    options = ("--model", str(words), "--precision", precision, "-o", str(tmp_path))
    said = run_python("-m", "model_export.cli", "plain", "cnn1", *options)
    assert [line.rpartition("/")[2] for line in said.splitlines()] == ["model.tflite", "labels.txt", "model.h"]
    graph, labels = in_c(tmp_path)
    assert graph == (tmp_path / "model.tflite").read_bytes()
    assert labels == (tmp_path / "labels.txt").read_text().splitlines() == list(WORDS)
    settings = read_bundle(find_bundle("cnn1")).manifest.feature_settings
    found = open_network(graph)(open_front_end(settings)(clips))
    np.testing.assert_allclose(found, classifier.probabilities(list(clips)), atol=tolerance)
    assert (found.argmax(axis=1) == classifier.probabilities(list(clips)).argmax(axis=1)).all()
    assert "#define AURICLE_SAMPLE_RATE_HZ 14400\n" in (tmp_path / "model.h").read_text()


def test_what_does_not_fit_is_named(learned, tmp_path):
    _, words, _ = learned

    def refused(*arguments):
        done = run_module("model_export.cli", "plain", *arguments, "-o", tmp_path / "out")
        assert (done.returncode, (tmp_path / "out").exists()) == (1, False)
        return done.stderr

    assert "holds no classifier of this bundle" in refused("cnn2", "--model", words)
    assert "--labels" in refused("cnn1")
    assert "names 3, but" in refused("cnn1", "--model", words, "--labels", "a,b,c")
    (tmp_path / "net.tflite").write_bytes(b"x")
    assert "is a finished model" in refused(tmp_path / "net.tflite", "--model", words)
