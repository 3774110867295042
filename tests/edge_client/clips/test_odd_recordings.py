"""Recordings from elsewhere: names that are no text, pops, clipping, an offset; other files are taken all the same."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from edge_client.audio.level import levels_db
from edge_client.audio.recordings import Recordings, duration_s
from edge_client.clips.importing import import_folder, sounding_stretch
from edge_client.clips.store import ClipStore
from edge_client.config.sections import ClipsConfig
from fleet_protocol.bundle.feature_settings import PRESETS

SETTINGS = PRESETS["gudur"]
RATE = SETTINGS.sample_rate_hz
ODD = b"T\xfcrklingel.wav"  # as a zip from Windows leaves it


def sound(at_s=0.5, length_s=0.5, loud=0.3, seconds=3.0):
    """Room noise with a tone in it, float32 [samples]."""
    samples = np.random.default_rng(3).normal(scale=0.002, size=round(seconds * RATE))
    at, length = round(at_s * RATE), round(length_s * RATE)
    samples[at : at + length] += loud * np.sin(2 * np.pi * 700 * np.arange(length) / RATE)
    return samples.astype(np.float32)


def write(path, samples):
    path = Path(os.fsdecode(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        soundfile.write(file, samples, RATE, format="WAV", subtype="PCM_16")


@pytest.fixture
def store(tmp_path):
    return ClipStore(tmp_path / "clips", ClipsConfig(), RATE)


def imported(folder, store):
    return import_folder(folder, None, store, SETTINGS)


def refusal(tmp_path, store, samples):
    write(os.fsencode(tmp_path / "rec" / "bell" / "one.wav"), samples)
    (reason,) = imported(tmp_path / "rec", store).refused.values()
    return reason


def test_a_name_that_is_no_text_is_read_and_a_folder_that_has_one_is_left_out_by_name(tmp_path, store):
    folder = os.fsencode(tmp_path / "rec")
    write(folder + b"/bell/" + ODD, sound())
    write(folder + b"/bell/other.wav", sound(1.0))
    write(folder + b"/K\xfcche/one.wav", sound())
    found = imported(tmp_path / "rec", store)
    assert (found.stored.total(), store.labels()) == (2, ("bell",))
    ((path, reason),) = found.refused.items()
    assert (path.name, "printable" in reason) == ("one.wav", True)
    recordings = Recordings(tmp_path / "rec", SETTINGS)
    assert recordings.labels() == ("bell",)
    clips = recordings.clips("bell")
    assert len(recordings.load(clips)) == len(clips) == 2
    assert [duration_s(clip) for clip in clips] == [3.0, 3.0]


def test_no_command_ends_in_a_traceback_where_such_a_recording_lies_among_the_clips(tmp_path, edge):
    folder = os.fsencode(tmp_path / "state" / "clips")
    for name in (b"bell/" + ODD, b"bell/other.wav", b"cup/one.wav", b"K\xfcche/one.wav"):
        write(folder + b"/" + name, sound())
    assert "bell" in edge("clips")
    assert edge("clips", "--label", "bell").count(".") >= 2
    edge.tried("doctor")


def test_of_a_word_and_a_louder_pop_the_word_is_taken(tmp_path, store):
    samples = sound(at_s=2.2, loud=0.3)
    samples[RATE // 2 : RATE // 2 + RATE // 20] = 0.9 * np.sign(np.random.default_rng(0).normal(size=RATE // 20))
    write(os.fsencode(tmp_path / "rec" / "bell" / "one.wav"), samples)
    imported(tmp_path / "rec", store)
    (clip,) = store.clips("bell")
    kept, _ = soundfile.read(clip.path, dtype="float32")
    heard = levels_db(kept, RATE)
    assert heard.max() == pytest.approx(-13.5, abs=1)  # the word's, not the pop's
    assert (heard > -30).sum() == pytest.approx(50, abs=3)


def test_content_says_what_a_file_is_not_its_name(tmp_path, store):
    write(os.fsencode(tmp_path / "rec" / "bell" / "one.dat"), sound())
    write(os.fsencode(tmp_path / "rec" / "bell" / "two.m4a"), sound(1.0))
    (tmp_path / "rec" / "bell" / "three.raw").write_bytes(bytes(1000))
    found = imported(tmp_path / "rec", store)
    ((path, reason),) = found.refused.items()
    assert (found.stored.total(), path.name, "ffmpeg -i" in reason) == (2, "three.raw", True)


def test_what_record_refuses_is_refused_and_an_offset_is_removed(tmp_path, store):
    assert "% of it is clipped" in refusal(tmp_path, store, np.clip(sound(loud=3.0), -1, 1))
    assert "is silent" in refusal(tmp_path, store, np.full(RATE, 0.4, np.float32))
    write(os.fsencode(tmp_path / "rec" / "bell" / "one.wav"), sound() + 0.4)
    assert imported(tmp_path / "rec", store).stored.total() == 1
    (clip,) = store.clips("bell")
    kept, _ = soundfile.read(clip.path)
    assert abs(kept.mean()) < 0.01


def test_a_sound_as_short_as_a_pop_is_taken_where_nothing_else_sounds():
    samples = sound(at_s=2.0, length_s=0.04, loud=0.8)
    assert levels_db(sounding_stretch(samples, SETTINGS), RATE).max() > -6


def test_of_a_long_recording_the_sound_is_found_however_late_it_comes(tmp_path, store):
    samples = np.concatenate([sound(loud=0, seconds=65), sound(), sound(loud=0, seconds=60)])
    write(os.fsencode(tmp_path / "rec" / "bell" / "one.wav"), samples)
    assert imported(tmp_path / "rec", store).refused == {}
    (clip,) = store.clips("bell")
    assert (levels_db(soundfile.read(clip.path, dtype="float32")[0], RATE) > -20).sum() == pytest.approx(50, abs=3)


def test_while_a_long_recording_is_read_others_change_the_clips_and_its_progress_is_told(tmp_path, store):
    write(os.fsencode(tmp_path / "rec" / "bell" / "one.wav"), np.tile(sound(), 60))
    told = []

    def advance(done, of):
        told.append((done, of))
        ClipStore(store.folder, ClipsConfig(), RATE).add("door", sound(at_s=len(told) / 10), RATE)

    found = import_folder(tmp_path / "rec", None, store, SETTINGS, advance=advance)
    assert (found.stored.total(), found.refused) == (1, {})
    assert len(store.clips("door")) == len(told) > 3
    assert told == sorted(told)
    assert 0 == told[0][0] < told[1][0] < 1


def test_a_label_of_a_folder_is_stored_before_the_next_one_is_judged(tmp_path, store):
    for label in ("bell", "cup"):
        write(os.fsencode(tmp_path / "rec" / label / "one.wav"), sound())
    before = {}

    def check(name):
        before[name] = store.labels()
        return name

    import_folder(tmp_path / "rec", None, store, SETTINGS, check)
    assert before == {"bell": (), "cup": ("bell",)}


@pytest.mark.slow
def test_four_times_as_long_an_mp3_takes_about_four_times_as_long(tmp_path, store):
    for minutes in (4, 16):
        with soundfile.SoundFile(tmp_path / f"{minutes}.mp3", "w", 8_000, 1, format="MP3") as file:
            for _ in range(minutes):
                file.write(np.random.default_rng(minutes).normal(scale=0.05, size=60 * 8_000).astype(np.float32))

    def takes_s(minutes, label):
        began = time.process_time()
        assert import_folder(tmp_path / f"{minutes}.mp3", label, store, SETTINGS).stored.total() == 1
        return time.process_time() - began

    # A core that another program has a half of is slower: of three times, in one at least it is so for both or neither.
    times = [takes_s(16, label) / takes_s(4, label) for label in ("bell", "cup", "door")]
    assert min(times) < 7  # 16 times, where each minute is searched from the start
