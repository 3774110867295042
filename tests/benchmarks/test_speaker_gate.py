"""`benchmarks.speaker_gate`: owners and strangers are counted apart, and no person is on both sides."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.speaker_gate import Decision, People, figures, through_microphone, trade_off
from edge_client.audio.recordings import read_recording
from tests.support.checkout import DATA, run_module
from tests.support.sounds import RATE, write_clips


def test_what_the_gate_costs_is_counted_beside_what_the_device_misses_anyway():
    own = [Decision(True, True, float(like)) for like in range(-10, 80)] + 10 * [Decision(True, False, 0.0)]
    strangers = (
        [Decision(False, True, -20.0)] * 30 + [Decision(False, True, 5.0)] * 10 + [Decision(False, False, 0)] * 60
    )
    found = figures([*own, *strangers], -5.0)
    assert (found["owner_missed"], found["owner_lost"]) == (10.0, 5.0)
    assert (found["strangers_heard"], found["strangers_passed"], found["kept_out"]) == (40.0, 10.0, 75.0)
    points = trade_off([*own, *strangers])
    assert [point["owner_lost"] for point in points] == [1, 2, 3, 5, 10]
    assert [point["least"] for point in points] == [-9, -8, -7, -5, 0]


def test_owners_are_of_one_half_alone_and_strangers_are_others(tmp_path):
    for word in ("yes", "no", "up"):
        for seed in range(8):
            write_clips(tmp_path, word, 1, seed=seed)
            (path,) = (tmp_path / word).glob(f"{seed:04x}*_0.wav")
            for take in range(6):
                (tmp_path / "gsc_v2_test" / word).mkdir(parents=True, exist_ok=True)
                copy = tmp_path / "gsc_v2_test" / word / path.name.replace("_0.wav", f"_{take}.flac")
                copy.write_bytes(path.read_bytes())
    tuning, report = (People(tmp_path, 0, tuning=tuning) for tuning in (True, False))
    assert len(tuning.owners()) == len(report.owners()) == 4
    assert not set(tuning.clips) & set(report.clips)
    owner = report.owners()[0]
    drawn = report.strangers(owner, "yes", np.random.default_rng(0))
    assert len(drawn) == 8
    assert not [path for path in drawn if path.name.startswith(owner)]
    assert len(report.all_of(owner)) == 18


def test_another_microphone_changes_the_spectrum_and_nothing_else(tmp_path):
    path = tmp_path / "yes" / "a_nohash_0.wav"
    write_clips(tmp_path, "yes", 1, seed=1)
    next((tmp_path / "yes").iterdir()).rename(path)
    flat, tilted = np.ones(257), np.linspace(1.0, 0.001, 257)
    same, dull = (
        through_microphone(path, own, flat, tmp_path / str(index)) for index, own in enumerate((flat, tilted))
    )
    spectra = [np.abs(np.fft.rfft(read_recording(written, RATE))) for written in (path, same, dull)]
    assert [Path(written).name for written in (same, dull)] == [path.name] * 2
    assert np.corrcoef(spectra[0], spectra[1])[0, 1] > 0.999
    high = slice(6_000, None)
    assert spectra[2][high].sum() / spectra[2].sum() < 0.5 * spectra[1][high].sum() / spectra[1].sum()


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="no recordings")
def test_one_owner_has_figures_of_every_point_of_the_trade_off():
    done = run_module("benchmarks.speaker_gate", "--owners", "1", "--bundles", "base", "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    (row,) = json.loads(done.stdout.splitlines()[-1])
    assert (row["bundle"], row["owners"]) == ("base", 1)
    assert row["words"] > row["own_words"] >= 4
    assert row["strangers_passed"] < row["strangers_heard"]
    kept_out = [point["kept_out"] for point in row["trade_off"]]
    assert kept_out == sorted(kept_out)
