"""Digital silence: noticed after the patience set, ever later while it lasts, at once again after sound."""

import numpy as np
import pytest

from edge_client.capture.silence import SilenceWatch
from edge_client.errors import AudioError

RATE_HZ = 1_000


def alarms(watch, seconds):
    """Return the seconds at which zeros were too many."""
    times = []
    for second in range(1, seconds + 1):
        try:
            watch.hear(np.zeros(RATE_HZ, np.float32), RATE_HZ)
        except AudioError:
            times.append(second)
    return times


def test_the_pauses_double_up_to_an_hour():
    times = alarms(SilenceWatch(10), 24 * 3_600)
    assert times[:4] == [10, 30, 70, 150]
    assert 24 <= len(times) <= 34
    assert np.diff(times).max() == 3_600


def test_any_sound_makes_it_watch_closely_again():
    watch = SilenceWatch(10)
    assert alarms(watch, 35) == [10, 30]
    watch.hear(np.array([0, 0, 1 / 32_768], np.float32), RATE_HZ)
    assert alarms(watch, 35) == [10, 30]


def test_no_samples_are_no_silence():
    watch = SilenceWatch(1)
    for _ in range(100):
        watch.hear(np.empty(0, np.float32), RATE_HZ)


def test_it_says_what_to_look_at():
    with pytest.raises(AudioError, match=r"digital zeros came for 2 s \(is it muted\? look with `alsamixer`\)"):
        SilenceWatch(2).hear(np.zeros(2 * RATE_HZ, np.float32), RATE_HZ)
