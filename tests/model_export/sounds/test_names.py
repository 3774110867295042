"""`auricle-export names`: the table of words, and the file of rows that ships."""

import numpy as np
import pytest

from edge_client.detection.sound_names import FILE, SoundNames
from model_export.cli import main
from model_export.sounds.known import KNOWN
from model_export.sounds.names import words
from tests.model_export.sounds.test_command import WEIGHTS


def test_each_class_has_its_word_and_built_in_sounds_have_their_own_names():
    table = words()
    assert len(table) == 527
    for name, classes in KNOWN.items():
        assert {table[number] for number in classes} == {name}
    named = set(table) - {"-"}
    assert all(word == word.strip().lower() and 2 < len(word) <= 20 for word in named)
    assert 100 <= len(named) <= 200
    assert table.count("-") <= 31
    assert set(SoundNames.read().words) == named


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "x.frontend"], "must be a file NAME.safetensors"),
        (["-o", "none/x.safetensors"], "in a folder that is there"),
        (["-o", "x.safetensors"], "cannot be read"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    assert main(["names", "--weights", "w.safetensors", *options]) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(not WEIGHTS.is_file(), reason="the weights are not here")
def test_made_again_it_is_what_ships(tmp_path):
    assert main(["names", "--weights", str(WEIGHTS), "-o", str(tmp_path / "again.safetensors")]) == 0
    again, shipped = SoundNames.read(tmp_path / "again.safetensors"), SoundNames.read(FILE)
    assert (again.network, again.words) == (shipped.network, shipped.words)
    np.testing.assert_array_equal(again.rows, shipped.rows)
    np.testing.assert_array_equal(again.first, shipped.first)
    np.testing.assert_allclose(again.bias, shipped.bias, atol=1e-2)  # dreams are followed in floating point
