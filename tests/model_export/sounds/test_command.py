"""`auricle-export sounds`: what it refuses, and the two files that it writes."""

import json

import numpy as np
import pytest
import soundfile

from edge_client.features.front_end import open_front_end
from fleet_protocol.bundle.feature_settings import FeatureSettings, FrozenNetwork
from fleet_protocol.ground.sample_sounds import takes
from model_export.cli import main
from model_export.errors import ExportError
from model_export.front_ends import find_front_end
from model_export.pretraining.front_end_file import read
from tests.support.checkout import DATA, run_python

WEIGHTS = DATA.parent / "models" / "efficientat_mn04" / "weights.safetensors"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "x.tflite"], "must end in .frontend"),
        (["-o", "none/x.frontend"], "there is no folder"),
        (["-o", "x.frontend", "--sources", "1"], "--sources 1 at least 2"),
        (["-o", "x.frontend", "--seed", "-1"], "--seed -1 must be at least 0"),
        (["-o", "x.frontend"], "cannot be read"),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    assert main(["sounds", "--weights", "w.safetensors", "--speech", "talk", *options]) == 1
    assert message in capsys.readouterr().err


def test_there_is_no_int8_form():
    with pytest.raises(ExportError, match="sounds has no int8 form"):
        find_front_end("sounds", "int8")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not WEIGHTS.is_file(), reason="the weights are not here")
def test_both_files_have_the_network_that_ships(tmp_path):
    (tmp_path / "talk").mkdir()
    soundfile.write(tmp_path / "talk" / "one.wav", takes("cry", 1, 80_000, np.random.default_rng(1))[0], 16_000)
    output = tmp_path / "mine.frontend"
    said = run_python(
        *("-m", "model_export.cli", "sounds", "--weights", str(WEIGHTS), "--speech", str(tmp_path / "talk")),
        *("--sources", "2", "--json", "-o", str(output)),
    )
    one, two = json.loads(said)
    assert (one["network"]["embedding"], two["features"]["frames"]) == (96, 198)
    assert two["network"]["multiply_adds"] > 1.8 * one["network"]["multiply_adds"]
    longer = read(tmp_path / "mine_2s.frontend")
    assert longer.float32 == read(output).float32
    assert (tmp_path / "mine_2s.frontend").stat().st_size < 300_000
    settings = FeatureSettings.from_json(longer.description["features"])
    found = find_front_end(str(output), "float32")
    assert open_front_end(found.settings)(np.zeros(16_000, np.float32)).shape == (1, 96)
    assert settings.network == FrozenNetwork.of(longer.float32)
