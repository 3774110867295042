"""`auricle-export build --features NAME.frontend`: a bundle whose front end is a pretrained network."""

import json

import pytest

from fleet_protocol.bundle import read_bundle
from model_export.pretraining import front_end_file
from tests.support.checkout import run_python
from tests.support.sounds import write_clips

pytestmark = pytest.mark.slow

HEAR = """
import json, sys
import numpy as np
from pathlib import Path
from edge_client.features.front_end import open_front_end
from edge_client.model.runtime import ModelRuntime
model = ModelRuntime.open(Path(sys.argv[1]))
clips = (0.1 * np.random.default_rng(0).standard_normal((4, 16000))).astype(np.float32)
x = model.normalise(open_front_end(model.manifest.feature_settings)(clips))
probabilities = model.predict(x, np.ones(model.manifest.capacity, np.float32))
print(json.dumps({"shape": x.shape, "x": x.tolist(), "sums": probabilities.sum(axis=1).tolist()}))
"""


@pytest.fixture(scope="module")
def front_end(tmp_path_factory):
    folder = tmp_path_factory.mktemp("front-end")
    for label in ("yes", "no", "up", "down"):
        write_clips(folder / "corpus", label, 8, seed=0)
    options = ["--size", "small", "--steps", "12", "--batch", "16", "--leave-out-words", "down"]
    path = folder / "ears.frontend"
    run_python("-m", "model_export.cli", "pretrain", *options, "--data", str(folder / "corpus"), "-o", str(path))
    return path


def test_a_bundle_hears_with_the_network_of_either_precision(tmp_path, front_end):
    heard = {}
    for precision in ("float32", "int8"):
        path = tmp_path / f"{precision}.auricle"
        options = ["--features", str(front_end), "--front-end-precision", precision, "-o", str(path)]
        run_python("-m", "model_export.cli", "build", "linear", *options)
        assert read_bundle(path).manifest.feature_settings.preset == "ears"
        heard[precision] = json.loads(run_python("-c", HEAR, str(path)).splitlines()[-1])
        assert heard[precision]["shape"] == [4, 1, 64]
        assert heard[precision]["sums"] == pytest.approx([1.0] * 4, abs=1e-5)
    digests = {read_bundle(tmp_path / f"{name}.auricle").manifest.feature_settings.digest for name in heard}
    assert len(digests) == 2  # numbers of one network cannot be compared with those of the other


def test_weights_of_float16_on_disk_are_float32_at_work(tmp_path):
    corpus, path = tmp_path / "corpus", tmp_path / "large.frontend"
    for label, name in (("yes", "yes"), ("no", "no"), ("stop", "_speech_")):
        write_clips(corpus, label, 4, seed=0, name=name)
    options = ["--size", "words", "--steps", "2", "--decay", "1", "--batch", "4", "--data", str(corpus)]
    run_python("-m", "model_export.cli", "pretrain", *options, "-o", str(path))
    file = front_end_file.read(path)
    assert len(file.float32) < 2.1 * file.description["network"]["weights"] + 20_000
    assert (file.int8, file.words) == (b"", ("no", "yes"))
    assert file.statistics["head/kernel"].shape == (128, 3)
    bundle = tmp_path / "words.auricle"
    run_python("-m", "model_export.cli", "build", "linear", "--features", str(path), "-o", str(bundle))
    # A bundle beside the file can leave its statistics out.
    held = read_bundle(bundle).manifest.sha256["embedding.safetensors"]
    assert held == file.description["files"][front_end_file.STATISTICS]["sha256"]
