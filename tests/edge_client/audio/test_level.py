"""Levels in dB of full scale."""

import numpy as np
import pytest

from edge_client.audio.level import FLOOR_DB, peak_dbfs, rms_dbfs


@pytest.mark.parametrize(("amplitude", "peak_db"), [(1.0, 0.0), (0.5, -6.02), (0.01, -40.0)])
def test_a_sine_has_its_peak_and_three_decibels_less(amplitude, peak_db):
    sine = (amplitude * np.sin(np.linspace(0, 20 * np.pi, 16_001))).astype(np.float32)
    assert peak_dbfs(sine) == pytest.approx(peak_db, abs=0.01)
    assert rms_dbfs(sine) == pytest.approx(peak_db - 3.01, abs=0.01)


@pytest.mark.parametrize("samples", [np.zeros(100, np.float32), np.empty(0, np.float32)])
def test_silence_has_a_floor(samples):
    assert peak_dbfs(samples) == rms_dbfs(samples) == FLOOR_DB
