"""Recordings: labels as they come and go, fair and repeatable shares of a round, and no round stopped by a bad file."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_client.audio import recordings
from edge_client.errors import RecordingError
from fleet_protocol.bundle.feature_settings import PRESETS
from tests.support.checkout import run_python

soundfile = pytest.importorskip("soundfile")


RATE, KWS = 16_000, PRESETS["kws40"]


def write(path, samples=None, rate_hz=16_000, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    if samples is None:
        samples = 0.1 * np.random.default_rng(len(path.name)).standard_normal(rate_hz)
    soundfile.write(path, samples, rate_hz, **options)
    return path


def fill(folder, label, count):
    for number in range(count):
        write(folder / label / f"{number:03d}_nohash_0.wav", np.full(160, number / 1_000))


def test_labels_are_folders_that_hold_recordings(tmp_path):
    for label in ("yes", "no", "_background_noise_", ".trash", "día 1 + ☂", "UPPER"):
        fill(tmp_path, label, 1)
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "read.txt").write_text("me")
    (tmp_path / "loose.wav").write_bytes(b"")
    source = recordings.Recordings(tmp_path, KWS, (1, 5))
    assert source.labels() == ("UPPER", "día 1 + ☂", "no", "yes")
    (tmp_path / "yes").rename(tmp_path / ".yes")  # one goes, and one comes later
    fill(tmp_path, "stop", 2)
    assert source.labels() == ("UPPER", "día 1 + ☂", "no", "stop")
    assert source.clips_for_round(1, "yes") == []
    assert len(source.clips_for_round(1, "stop")) >= 1
    with pytest.raises(RecordingError, match=r"cannot list .*nowhere.*<label>/\*\.wav"):
        recordings.Recordings(tmp_path / "nowhere", KWS).labels()


def test_recordings_of_every_format_count_whatever_the_case_of_their_suffix(tmp_path):
    for name in ("a.wav", "b.flac", "c.ogg", "d.WAV"):
        write(tmp_path / "yes" / name)
    (tmp_path / "yes" / "e.m4a").write_bytes(b"no")
    (tmp_path / "yes" / ".hidden.wav").write_bytes(b"no")
    (tmp_path / "yes" / "folder.wav").mkdir()
    source = recordings.Recordings(tmp_path, KWS)
    assert [clip.name for clip in source.clips("yes")] == ["a.wav", "b.flac", "c.ogg", "d.WAV"]
    assert source.load(source.clips("yes")).shape == (4, 16_000)
    assert source.skipped == {}


@pytest.mark.parametrize("label", ["..", "../yes", "yes/../yes", "/etc", "_noise", ".hidden", "", "gone"])
def test_what_is_no_label_has_no_clips(tmp_path, label):
    fill(tmp_path / "data", "yes", 1)
    fill(tmp_path, "yes", 1)
    for hidden in ("_noise", ".hidden"):
        fill(tmp_path / "data", hidden, 1)
    assert recordings.Recordings(tmp_path / "data", KWS).clips_for_round(1, label) == []


def test_a_share_is_drawn_again_alike_and_differs_by_round_label_and_device(tmp_path):
    for label in ("yes", "no"):
        fill(tmp_path, label, 40)

    def draw(seed, round_number, label):
        source = recordings.Recordings(tmp_path, KWS, (10, 20), seed)
        return [clip.name for clip in source.clips_for_round(round_number, label)]

    assert draw(1, 1, "yes") == draw(1, 1, "yes")
    draws = {tuple(draw(*case)) for case in [(1, 1, "yes"), (2, 1, "yes"), (1, 2, "yes"), (1, 1, "no")]}
    assert len(draws) == 4


def test_shares_stay_within_bounds_reach_both_and_repeat_no_clip(tmp_path):
    fill(tmp_path, "yes", 12)
    source = recordings.Recordings(tmp_path, KWS, (3, 6))
    shares = [source.clips_for_round(number, "yes") for number in range(1, 80)]
    assert {len(share) for share in shares} == {3, 4, 5, 6}
    assert all(len(set(share)) == len(share) for share in shares)
    assert {clip for share in shares for clip in share} == set(source.clips("yes"))
    for bounds in ((200, 300), None):
        assert len(recordings.Recordings(tmp_path, KWS, bounds).clips_for_round(3, "yes")) == 12


def test_bad_files_are_left_out_named_and_counted(tmp_path, caplog):
    write(tmp_path / "yes" / "good.wav", np.full(16_000, 0.5))
    (tmp_path / "yes" / "text.wav").write_text("this is no sound")
    (tmp_path / "yes" / "zero.flac").write_bytes(b"")
    (tmp_path / "yes" / "gone.ogg").symlink_to(tmp_path / "nowhere.ogg")
    write(tmp_path / "yes" / "empty.wav", np.zeros(0))
    write(tmp_path / "yes" / "nan.wav", np.array([0.0, np.nan]), subtype="FLOAT")
    write(tmp_path / "yes" / "units.wav", np.array([0.0, 20_000.0]), subtype="FLOAT")
    whole = write(tmp_path / "yes" / "cut.flac").read_bytes()
    (tmp_path / "yes" / "cut.flac").write_bytes(whole[:100])
    source = recordings.Recordings(tmp_path, KWS)
    for _ in range(2):
        samples = source.load(source.clips_for_round(1, "yes"))
        assert samples.shape == (1, 16_000)
        np.testing.assert_allclose(samples, 0.5, atol=1e-4)
    bad = {"text.wav", "zero.flac", "gone.ogg", "empty.wav", "nan.wav", "units.wav", "cut.flac"}
    assert {path.name for path in source.skipped} == bad
    for name in bad:
        assert sum(name in record.getMessage() for record in caplog.records) == 1


@given(length=st.integers(1, 60_000), seed=st.integers(0, 99))
@settings(max_examples=50)
def test_no_stretch_on_the_search_grid_is_louder(length, seed):
    samples = np.random.default_rng(seed).standard_normal(length).astype(np.float32)
    stretch = recordings.loudest_stretch(samples, KWS)
    assert len(stretch) == min(length, 16_000)
    best = max(np.square(samples[start : start + 16_000]).sum() for start in range(0, max(1, length - 15_999), 160))
    assert np.square(stretch).sum() == pytest.approx(best, rel=1e-4)


def test_only_the_first_minute_of_an_endless_recording_is_read(tmp_path):
    path = write(tmp_path / "a.wav", np.tile(np.sin(np.arange(1_000)), 70), 1_000)
    assert len(recordings.read_recording(path, 1_000)) == 60_000


@pytest.mark.parametrize(
    ("name", "speaker"),
    [
        ("0a2b400e_nohash_1.flac", "0a2b400e"),
        ("anna_b_nohash_12.wav", "anna_b"),
        ("anna_12.wav", "anna"),
        ("anna.wav", "anna"),
        ("anna.take.2.wav", "anna.take.2"),
    ],
)
def test_the_speaker_stands_in_the_name(name, speaker):
    assert recordings.speaker_of(Path("yes") / name) == speaker


def test_many_channels_at_a_high_rate_are_read_in_little_memory(tmp_path):
    path = tmp_path / "many.flac"
    with soundfile.SoundFile(path, "w", 192_000, 8) as file:
        for _ in range(30):
            file.write(np.full((192_000, 8), 0.1, np.float32))
    code = """
import resource, sys
from pathlib import Path
from edge_client.audio.recordings import read_recording
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
samples = read_recording(Path(sys.argv[1]), 16_000)
print(len(samples), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3)
"""
    count, more_mb = run_python("-c", code, str(path)).split()
    assert int(count) == 30 * 16_000
    assert float(more_mb) < 40  # all of its channels at once take 184 MB, and as much again for their sum


def test_a_file_of_very_many_channels_is_refused_by_name(tmp_path):
    path = tmp_path / "many.wav"
    soundfile.write(path, np.zeros((100, 65), np.float32), RATE)
    with pytest.raises(RecordingError, match=r"many\.wav: it has 65 channels, and the most is 64"):
        recordings.read_recording(path, RATE)
    with pytest.raises(RecordingError, match="65 channels"):
        recordings.duration_s(path)


@pytest.mark.parametrize("size", [0, 0xFFFF_FFFF])
def test_a_wave_file_that_was_written_into_a_pipe_has_all_its_sound(tmp_path, size):
    path = tmp_path / "piped.wav"
    whole = recordings.encode_wave(np.linspace(-0.5, 0.5, RATE, dtype=np.float32), RATE)
    at = whole.index(b"data") + 4
    path.write_bytes(whole[:at] + size.to_bytes(4, "little") + whole[at + 4 :])
    np.testing.assert_allclose(recordings.read_recording(path, RATE), np.linspace(-0.5, 0.5, RATE), atol=1e-4)
    assert recordings.duration_s(path) == 1.0


@pytest.mark.parametrize("seconds", [3, 70])
def test_a_flac_that_was_written_into_a_pipe_has_all_its_sound(tmp_path, seconds):
    samples = 0.1 * np.random.default_rng(0).standard_normal(seconds * 1_000)
    whole = bytearray(write(tmp_path / "known.flac", samples, 1_000).read_bytes())
    whole[21] &= 0xF0  # STREAMINFO's 36 bits of the number of samples
    whole[22:26] = bytes(4)
    path = tmp_path / "piped.flac"
    path.write_bytes(whole)
    np.testing.assert_allclose(recordings.read_recording(path, 1_000), samples[:60_000], atol=1e-4)
    np.testing.assert_allclose(np.concatenate(list(recordings.read_blocks(path, 1_000))), samples, atol=1e-4)
    assert recordings.duration_s(path) == min(60, seconds)


@pytest.mark.parametrize("suffix", [".oga", ".aiff", ".caf"])
def test_what_libsndfile_reads_is_a_recording_whatever_it_is_called(tmp_path, suffix):
    path = tmp_path / f"bell{suffix}"
    soundfile.write(path, np.full(RATE, 0.25), RATE, format="OGG" if suffix == ".oga" else suffix[1:].upper())
    assert recordings.is_recording(path)
    assert len(recordings.read_recording(path, RATE)) == RATE


def test_what_cannot_be_read_is_to_be_saved_again_never_to_be_removed(tmp_path):
    (tmp_path / "song.mp3").write_bytes(b"\0\0\0\x20ftypM4A " + bytes(500))
    with pytest.raises(RecordingError, match="ffmpeg -i") as caught:
        recordings.read_recording(tmp_path / "song.mp3", RATE)
    assert "remove" not in str(caught.value)


def phrase(*syllables, room=0.0005, seconds=4.0):
    """Return a room in which tones begin and end at these times, s."""
    samples = np.random.default_rng(0).normal(scale=room, size=round(seconds * RATE)).astype(np.float32)
    for begin_s, end_s in syllables:
        at = np.arange(round(begin_s * RATE), round(end_s * RATE))
        samples[at] += 0.1 * np.sin(2 * np.pi * 300 * at / RATE).astype(np.float32)
    return samples


@pytest.mark.parametrize(
    ("samples", "begin_s", "end_s"),
    [
        (phrase((0.5, 0.8), (1.0, 1.3), (1.6, 2.4)), 0.5, 2.4),  # with pauses of up to 0.35 s
        (phrase((0.5, 0.8), (1.5, 2.9)), 1.5, 2.9),
        (phrase((0.5, 0.8), (1.0, 1.8), room=0.02), 0.5, 1.8),  # in noise, 11 dB below
    ],
)
def test_what_is_said_for_longer_than_a_clip_is_found_whole_and_its_end_is_heard(tmp_path, samples, begin_s, end_s):
    settings = PRESETS["log_mel"]
    begin, end = recordings.whole_stretch(samples, settings)
    assert (begin / RATE, end / RATE) == pytest.approx((begin_s - 0.1, end_s + 0.1), abs=0.02)
    path = write(tmp_path / "a.wav", samples, subtype="FLOAT")
    np.testing.assert_array_equal(recordings.read_clip(path, settings), samples[end - RATE : end])
    np.testing.assert_array_equal(recordings.read_clip(path, settings, RATE // 2), samples[end - RATE * 3 // 2 : end])


@pytest.mark.parametrize(
    "samples",
    [phrase((0.5, 3.8)), phrase((1.0, 1.4)), phrase((1.0, 1.4), room=0.03), phrase(room=0.05), np.zeros(4 * RATE)],
)
def test_of_a_sound_that_goes_on_a_short_word_and_noise_the_loudest_clip_is_heard(samples):
    begin, end = recordings.whole_stretch(np.float32(samples), PRESETS["log_mel"])
    assert end - begin == RATE
    assert begin == recordings.loudest_start(np.float32(samples), PRESETS["log_mel"])


@pytest.mark.parametrize(
    ("spoken", "kept_s"),
    [
        ({"talk": (0.0, 1.2), "phrase": (1.8, 3.4)}, 1.8),  # the pause, and a tenth of a second beside the phrase
        ({"talk": (0.0, 1.2), "phrase": (1.4, 3.4)}, 3.5),  # no pause
        ({"talk": (0.0, 1.2), "phrase": (3.0, 3.4)}, 1.0),  # a short word: a clip
        ({"phrase": (1.0, 3.4)}, 2.6),
        ({}, 3.5),
    ],
)
def test_what_was_said_louder_before_a_pause_is_no_part_of_what_was_heard(spoken, kept_s):
    rng = np.random.default_rng(0)
    stretch = 0.001 * rng.standard_normal(round(3.5 * RATE)).astype(np.float32)
    for what, (begin_s, end_s) in spoken.items():
        part = slice(round(begin_s * RATE), round(end_s * RATE))
        stretch[part] *= 400 if what == "talk" else 60
    kept = recordings.since_pause(stretch, KWS)
    assert len(kept) / RATE == pytest.approx(kept_s, abs=0.03)
    np.testing.assert_array_equal(kept, stretch[-len(kept) :])
