"""Phrases that share a part, said whole by synthesised voices."""

import pytest

from benchmarks.listening.material import RATE_HZ
from benchmarks.synthesised_phrases import PHRASES
from edge_client.audio.recordings import read_recording
from tests.support.checkout import run_module, run_python

pytestmark = pytest.mark.slow


def test_every_voice_says_every_phrase_whole_and_no_take_twice(tmp_path):
    folder = tmp_path / "phrases"
    run_python("-m", "benchmarks.synthesised_phrases", str(folder), "--speakers", "2", "--takes", "2")
    assert {path.name for path in folder.iterdir()} == set(PHRASES)
    names = {path.name for path in (folder / PHRASES[0]).iterdir()}
    assert len([name for name in names if name.startswith("espeak")]) == 4
    for phrase in PHRASES:
        assert {path.name for path in (folder / phrase).iterdir()} == names
        takes = [read_recording(path, RATE_HZ) for path in sorted((folder / phrase).glob("espeak*"))]
        assert len({take.tobytes() for take in takes}) == len(takes)
        if phrase == "turn on the kitchen lights":  # not cut to the second of a clip
            assert min(map(len, takes)) > 1.3 * RATE_HZ
    again = run_module("benchmarks.synthesised_phrases", str(folder))
    assert again.returncode == 1
    assert "exists already; remove it" in again.stderr
