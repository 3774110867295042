"""Takes are cut to the sound in them, and those that nobody could learn from are refused with the reason."""

import io

import numpy as np
import pytest

from edge_client.audio.level import levels_db
from edge_client.clips.recorder import Lines, Recorder, cut_take, display_for, room_level_db
from edge_client.errors import TakeError
from fleet_protocol.bundle.feature_settings import PRESETS

SETTINGS = PRESETS["gudur"]
RATE = SETTINGS.sample_rate_hz
CLIP = SETTINGS.clip_samples


def room(seconds, seed=0, scale=0.002):
    return np.random.default_rng(seed).normal(scale=scale, size=round(seconds * RATE)).astype(np.float32)


def take(begin_s, length_s, loud=0.3, seconds=2.0, seed=0):
    """Room noise with a tone in it."""
    samples = room(seconds, seed)
    at, length = round(begin_s * RATE), round(length_s * RATE)
    samples[at : at + length] += loud * np.sin(2 * np.pi * 700 * np.arange(length) / RATE).astype(np.float32)
    return samples


ROOM_DB = room_level_db(room(3.0, seed=9), RATE)


def cut(samples, wanted=None):
    return cut_take(samples, len(samples) if wanted is None else wanted, ROOM_DB, SETTINGS)


@pytest.mark.parametrize(("begin_s", "length_s"), [(0.1, 0.3), (0.05, 0.1), (0.8, 0.4), (1.6, 0.3), (0.5, 0.9)])
def test_a_take_becomes_one_clip_with_the_whole_sound_in_it_and_no_artificial_silence(begin_s, length_s):
    clip = cut(take(begin_s, length_s))
    assert len(clip) == CLIP
    heard = (levels_db(clip, RATE) > -30).sum() * 0.01
    assert heard == pytest.approx(length_s, abs=0.03)
    assert (clip == 0).mean() < 0.01


def test_of_a_sound_that_is_longer_than_a_clip_the_loudest_part_is_kept():
    samples = take(0.1, 1.8, loud=0.1)
    samples[RATE // 2 : RATE // 2 + CLIP] *= 4
    assert np.sqrt((cut(samples) ** 2).mean()) == pytest.approx(0.4 / np.sqrt(2), rel=0.05)


def test_a_phrase_is_kept_whole():
    clip = cut(take(0.4, 2.5, seconds=4.0))
    assert (levels_db(clip, RATE) > -30).sum() * 0.01 == pytest.approx(2.5, abs=0.03)
    with pytest.raises(TakeError, match="cut off: the sound went on"):  # a phrase of which more than a clip is there
        cut(take(0.5, 1.5))


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (np.clip(take(0.5, 0.5, loud=3.0), -1, 1), "too loud: .* % of it is clipped"),
        (room(2.0), "too quiet: .* dB at its loudest, and the room has -54 dB"),
        (np.zeros(2 * RATE, np.float32), "too quiet: -120 dB"),
        (take(0.5, 0.02), "too short: only .* ms"),
        (take(0.0, 0.4), "cut off: the sound had begun before"),
        (take(1.5, 0.5), "cut off: the sound went on when the take was over"),
        (take(0.2, 0.3, seconds=1.0), r"gave 1\.0 s instead of 2\.0 s"),
    ],
)
def test_a_take_that_is_no_good_is_refused_with_the_reason(samples, reason):
    with pytest.raises(TakeError, match=reason):
        cut(samples, wanted=2 * RATE)


class Stream:
    """An audio source that plays an array as fast as it is read; behind its end it is silent for good."""

    sample_rate_hz = RATE
    frames = overflows = reopened = 0
    trouble = ""

    def __init__(self, *parts):
        self.samples = np.concatenate(parts)

    def read(self, samples, timeout_s):
        if not timeout_s:  # what waits: nothing does here
            return self.samples[:0]
        taken, self.samples = self.samples[:samples], self.samples[samples:]
        return taken

    def close(self):
        pass


COUNTDOWN = room(1.5, seed=4)


def session(count, *parts):
    kept, out = [], io.StringIO()
    recorder = Recorder(Stream(room(3.0), *parts), SETTINGS, display_for(out))
    recorder.hear_room()
    try:
        recorder.record(count, 2.0, kept.append)
    finally:
        text = out.getvalue()
    return kept, text


def test_a_refused_take_is_taken_again_until_there_are_enough():
    good = [take(0.5, 0.4, seed=seed) for seed in range(2)]
    kept, text = session(2, COUNTDOWN, good[0], COUNTDOWN, room(2.0), COUNTDOWN, good[1])
    assert [len(clip) for clip in kept] == [CLIP, CLIP]
    lines = text.splitlines()
    assert "take 1 of 2: kept" in text
    assert any(line.startswith("take 2 of 2: refused, too quiet") for line in lines)
    assert lines[-1].startswith("take 2 of 2: kept")
    assert "\r" not in text  # no terminal, no meter


def test_a_take_waits_for_the_end_of_a_sound_that_began_late():
    late = take(1.5, 0.9, seconds=2.9)
    kept, text = session(1, COUNTDOWN, late)
    assert "refused" not in text
    assert (levels_db(kept[0], RATE) > -30).sum() * 0.01 == pytest.approx(0.9, abs=0.03)


def test_a_sound_without_an_end_is_kept_as_long_as_a_clip():
    kept, text = session(1, COUNTDOWN, take(0.0, 9.0, seconds=9.0))
    assert ("refused" in text, len(kept[0])) == (False, CLIP)


class Choosy(Lines):
    """A display of somebody who does not want the first take, once there are two."""

    def __init__(self, out):
        super().__init__(out)
        self.steps = []

    def step(self, step):
        self.steps.append((step.kind, step.take))

    def unwanted(self):
        return int(("kept", 2) in self.steps and not any(kind == "discarded" for kind, _ in self.steps))


def test_a_take_that_is_not_wanted_is_discarded_and_another_one_taken():
    good = [take(0.5, 0.4, seed=seed, loud=0.1 * (seed + 1)) for seed in range(4)]
    kept, display = [], Choosy(io.StringIO())
    recorder = Recorder(Stream(room(3.0), *(part for one in good for part in (COUNTDOWN, one))), SETTINGS, display)
    recorder.hear_room()
    recorder.record(3, 2.0, kept.append, lambda number: kept.pop(number - 1))
    peaks = [round(float(np.abs(clip).max()), 1) for clip in kept]
    assert peaks == [0.2, 0.3, 0.4]
    assert [step for step in display.steps if step[0] in ("kept", "discarded")] == [
        *(("kept", 1), ("kept", 2), ("discarded", 1), ("kept", 2), ("kept", 3))
    ]


def test_a_session_without_a_sound_ends_and_says_why():
    with pytest.raises(TakeError, match=r"10 takes in a row were refused.*too quiet.*0 were kept"):
        session(2, room(60.0, seed=3))


def test_a_microphone_that_gives_nothing_is_named():
    recorder = Recorder(Stream(room(0.1)), SETTINGS, Lines(io.StringIO()))
    with pytest.raises(TakeError, match="auricle-edge devices"):
        recorder.hear_room()
