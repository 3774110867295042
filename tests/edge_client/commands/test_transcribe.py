"""`auricle-edge transcribe`: what is said in sound files."""

import json
import re

import numpy as np
import pytest
import soundfile

from edge_client.cli import main
from edge_client.features.front_end import open_front_end
from edge_client.model.runtime import ModelRuntime
from edge_client.speech.ctc import greedy, text_of
from fleet_protocol.errors import BundleError
from tests.support.edge_commands import EdgeCommands

RATE = 16_000


@pytest.fixture
def recording(tmp_path):
    def written(name, seconds, rate=RATE):
        path = tmp_path / name
        times = np.arange(round(seconds * rate)) / rate
        soundfile.write(path, 0.3 * np.sin(2 * np.pi * 440 * times), rate)
        return path

    return written


def test_files_of_any_rate_become_texts(transcribing_bundle, recording, capsys):
    files = [recording("one.wav", 1.0), recording("other.flac", 0.4, 44_100)]
    assert main(["transcribe", str(transcribing_bundle), *map(str, files), "--json"]) == 0
    texts = json.loads(capsys.readouterr().out)
    assert list(texts) == [str(path) for path in files]
    model = ModelRuntime.open(transcribing_bundle)
    samples = soundfile.read(files[0], dtype="float32")[0]
    x = model.normalise(open_front_end(model.manifest.feature_settings)(samples)[None])
    (symbols,) = greedy(model.predict(x, np.ones(5, np.float32)))
    assert texts[str(files[0])] == text_of(symbols, "abcd")
    assert main(["transcribe", str(transcribing_bundle), str(files[0])]) == 0
    assert capsys.readouterr().out == f"{files[0]}: {texts[str(files[0])]}\n"


def test_a_daemon_has_no_use_for_it(tmp_path, transcribing_bundle, capsys):
    edge = EdgeCommands(tmp_path, capsys, transcribing_bundle)
    message = "(dcnn_ctc) writes down speech and recognises no classes of sounds"
    with pytest.raises(BundleError, match=re.escape(message)):
        edge.state.model.load(transcribing_bundle)
    assert f"FAIL  bundle         {transcribing_bundle} {message}" in edge.ended(1, "doctor")[0]


def test_what_cannot_be_written_down_is_named(transcribing_bundle, bundles, recording, tmp_path, capsys):
    long = recording("long.wav", 1.5)
    for bundle, path, message in [
        (transcribing_bundle, long, "long.wav lasts 1.50 s; this bundle hears 1 s at once: cut it in parts"),
        (transcribing_bundle, tmp_path / "absent.wav", "absent.wav"),
        (bundles["cnn2"], long, "(cnn2) recognises classes of sounds and writes no texts; build one that does"),
    ]:
        assert main(["transcribe", str(bundle), str(path)]) == 1
        assert message in capsys.readouterr().err
