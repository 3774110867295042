"""`auricle-export pretrain`: trains, survives SIGKILL, writes a file that both runtimes run, and explains bad input."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from edge_client.audio.recordings import encode_wave
from edge_client.features.front_end import open_front_end
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.feature_settings import FeatureSettings, FrozenNetwork, preset
from fleet_protocol.numbers.tensors import unpack
from model_export.cli import main
from model_export.cost import multiply_adds_of
from model_export.front_ends import find_front_end
from model_export.graph_operators import operators_by_signature
from model_export.pretraining import variants
from model_export.pretraining.front_end_file import read
from model_export.pretraining.network import DESIGNS, Design
from tests.support.checkout import ROOT, run_module
from tests.support.sounds import write_clips

pytestmark = pytest.mark.slow

BUILT_IN = {
    "float32": {"CONV_2D", "ADD", "RESHAPE", "MEAN"},
    # Not MEAN, for which 32-bit ARM has no fast int8 code.
    "int8": {"CONV_2D", "ADD", "RESHAPE", "DEPTHWISE_CONV_2D", "STRIDED_SLICE", "QUANTIZE", "DEQUANTIZE"},
}


def arguments(folder, corpus):
    options = f"--size small --steps 24 --batch 24 --checkpoint-s 0.001 --leave-out-words stop,down --data {corpus}"
    return [*options.split(), "--attribution", "melodies", "--json", "-o", str(folder / "ears.frontend")]


def pretrain(*options):
    return run_module("model_export.cli", "pretrain", *options)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Five melodies by twelve singers, and connected speech."""
    folder = tmp_path_factory.mktemp("corpus")
    for label in ("yes", "no", "up", "down", "stop"):
        write_clips(folder, label, 12, seed=0)
    write_clips(folder, "stop", 4, seed=1, name="_speech_")
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory, corpus):
    folder = tmp_path_factory.mktemp("trained")
    done = pretrain(*arguments(folder, corpus))
    assert done.returncode == 0, done.stderr
    assert "step 24 of 24" in done.stderr
    return folder / "ears.frontend", json.loads(done.stdout)


@pytest.fixture(scope="module")
def speech(tmp_path_factory):
    """Marks of words in two recordings, and their folder."""
    folder = tmp_path_factory.mktemp("speech")
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        (folder / f"{name}.wav").write_bytes(encode_wave(rng.normal(0, 0.1, 32_000).astype(np.float32), 16_000))
    said = {"words": [["zip", 20, 60], ["yes", 70, 110]]}
    said["phones"] = [["ah" if number % 2 else "oh", 3 * number, 3 * number + 2] for number in range(65)]
    marks = [{"recording": name, "speaker": f"reader{name}", **said} for name in ("a", "b")]
    (folder / "marks.json").write_text(json.dumps(marks))
    return ["--speech", str(folder / "marks.json"), "--recordings", str(folder)]


# Is killed when it has written its first checkpoint.
DIES = """
import os, signal, sys
from model_export.cli import main
from model_export.pretraining.training import Training
def save_and_die(training, save=Training._save):
    save(training)
    os.kill(os.getpid(), signal.SIGKILL)
Training._save = save_and_die
sys.exit(main())
"""


def test_a_runs_length_is_decided_until_the_rate_falls(tmp_path, corpus, speech):
    """A run that is made longer before its last steps writes the file of a run that was as long from the start."""
    once, later = tmp_path / "once", tmp_path / "later"
    for folder in (once, later):
        folder.mkdir()
    lengths = {"short": (*speech, "--steps", 60, "--decay", 20), "long": (*speech, "--steps", 70, "--decay", 30)}
    assert pretrain(*arguments(once, corpus), *lengths["long"]).returncode == 0
    checkpoint = later / "ears.checkpoint"
    short = [sys.executable, "-c", DIES, "pretrain", *arguments(later, corpus), *map(str, lengths["short"])]
    died = subprocess.run(short, cwd=ROOT, capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert 1 <= unpack(checkpoint.read_bytes())[1]["step"] <= 40
    done = pretrain(*arguments(later, corpus), *lengths["long"])
    assert done.returncode == 0, done.stderr
    assert (later / "ears.frontend").read_bytes() == (once / "ears.frontend").read_bytes()
    front_end = read(once / "ears.frontend")
    assert front_end.words == ("no", "up", "yes")
    assert front_end.statistics["head/kernel"].shape == (64, 4)
    refused = pretrain(*arguments(later, corpus), *lengths["short"])
    assert refused.returncode == 1
    assert "is of another run (steps 70, not 60, decay 30, not 20)" in refused.stderr


def test_the_file_says_what_is_in_it_and_stays_within_its_size(trained):
    path, report = trained
    front_end = read(path)
    assert report["network"] == front_end.description["network"]
    assert report["network"]["multiply_adds"] == multiply_adds_of(front_end.float32, "embed") <= 1_000_000
    assert report["network"]["weights"] <= 100_000
    assert front_end.words == ("no", "up", "yes")
    assert front_end.description["corpus"]["words_left_out"] == ["down", "stop"]
    assert front_end.description["attribution"] == "melodies"
    settings = FeatureSettings.from_json(front_end.description["features"])
    assert settings.shape == (1, 64)
    assert settings.preset == "ears"
    assert settings.network == FrozenNetwork.of(front_end.float32)
    assert settings.log_mel.digest == preset("log_mel").digest
    assert front_end.description["training"]["seed"] == 0
    assert front_end.statistics["means"].shape == (3, 64)
    assert front_end.statistics["counts"].tolist() == [12, 12, 12]
    assert front_end.statistics["head/kernel"].shape == (64, 4)
    within = front_end.statistics["within_covariance"]
    assert np.linalg.eigvalsh(within.astype(float)).min() > -1e-6
    assert front_end.description["files"]["statistics.safetensors"]["bytes"] <= 400_000
    assert {case["ways"] for case in report["few_shot"]} == {2}


def test_only_built_in_operators_are_left(trained):
    front_end = read(trained[0])
    for precision, graph in (("float32", front_end.float32), ("int8", front_end.int8)):
        (operators,) = operators_by_signature(graph).values()
        assert set(operators) <= BUILT_IN[precision]


def test_a_bundle_hears_with_the_network_of_either_precision(tmp_path, trained):
    held, settings = read(trained[0]).description["files"]["statistics.safetensors"]["sha256"], []
    clips = (0.1 * np.random.default_rng(0).standard_normal((4, 16_000))).astype(np.float32)
    for precision in ("float32", "int8"):
        path = tmp_path / f"{precision}.auricle"
        options = ["--features", str(trained[0]), "--front-end-precision", precision, "-o", str(path)]
        assert main(["build", "linear", *options]) == 0
        model = ModelRuntime.open(path)
        settings.append(model.manifest.feature_settings)
        assert settings[-1].preset == "ears"
        assert model.manifest.sha256["embedding.safetensors"] == held  # a bundle beside the file can leave it out
        x = model.normalise(open_front_end(settings[-1])(clips))
        assert x.shape == (4, 1, 64)
        sums = model.predict(x, np.ones(model.manifest.capacity, np.float32)).sum(axis=1)
        assert sums == pytest.approx([1.0] * 4, abs=1e-5)
    assert settings[0].digest != settings[1].digest  # numbers of one network cannot be compared with those of the other


def test_two_networks_in_one_file_give_what_each_gives(tmp_path, corpus, trained, speech, monkeypatch, capsys):
    monkeypatch.setitem(DESIGNS, "separable", Design((3,), 8, (16,), 3, half=True, bands=53, separable=(3, 4)))
    monkeypatch.setattr(variants, "SEPARABLE", variants.Augmentation(cut=0.5))  # compiled sooner
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    path, clip = tmp_path / "ears.frontend", np.random.default_rng(0).normal(0, 0.1, 16_000).astype(np.float32)
    options = ["pretrain", *arguments(tmp_path, corpus), *speech, "--size", "separable", "--steps", "8"]

    def heard(file):
        return open_front_end(find_front_end(str(file), "float32").settings)(clip)

    assert main(options) == 0
    expected = np.concatenate([heard(trained[0]), heard(path)], axis=1)
    checkpoint = (tmp_path / "ears.checkpoint").read_bytes()
    assert unpack(checkpoint)[0]["weights/pairs/kernel"].shape == (16, 2)
    assert "CUDA_VISIBLE_DEVICES" not in os.environ  # JAX may use an accelerator
    assert main([*options, "--beside", str(trained[0])]) == 0  # from the checkpoint
    assert (tmp_path / "ears.checkpoint").read_bytes() == checkpoint
    assert np.allclose(heard(path), expected, atol=1e-3 * np.abs(expected).max())
    file = read(path)
    assert file.description["network"]["size"] == "small and separable"
    assert (file.int8, file.words) == (b"", ("no", "up", "yes"))
    assert file.statistics["head/kernel"].shape == (80, 4)
    for beside, changed, message in (
        (path, [], "must be one network of `auricle-export pretrain`, and is of size 'small and separable'"),
        (trained[0], ["--leave-out-words", "stop"], "was trained on other words than --data has (down); train both"),
    ):
        assert main([*options, "--beside", str(beside), *changed]) == 1
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--steps", "0"], "--steps must be at least 1, not 0"),
        (["--seed", "-1"], "--seed must be from 0 to 4294967295, not -1"),
        (["--seed", str(2**63)], "--seed must be from 0 to 4294967295, not 9223372036854775808"),
        (["--decay", "25"], "--decay must be 0 to --steps, 24, not 25"),
        (["--learning-rate", "nan"], "--learning-rate must be positive"),
        (["-o", "ears.zip"], "--output must end in .frontend"),
        (["--leave-out-words", "yes,perhaps"], "names perhaps, which the corpus does not have; it has down, no,"),
        (["--leave-out-words", "yes,no,up,down"], "at least two words are needed"),
        (["--test", "/nowhere"], "/nowhere holds no recordings as <label>/*.wav"),
        (["--few-shot", "/nowhere"], "/nowhere holds no recordings as <label>/*.wav"),
        (["--speech", "/nowhere.json"], "--speech and --recordings need each other"),
        (["--speech", "/nowhere.json", "--recordings", "/nowhere"], "/nowhere.json has no marks of words"),
        (["--data", "/nowhere.zip"], "there is no log-mel archive /nowhere.zip"),
    ],
)
def test_bad_input_is_explained(tmp_path, corpus, changed, message, capsys):
    assert main(["pretrain", *arguments(tmp_path, corpus), *changed]) == 1
    assert message in capsys.readouterr().err
