"""Taught clips: whole on the disk whatever happens, private, within their quota, and easy to put right."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from aggregator_server.names import check_name
from edge_client.audio.recordings import Recordings
from edge_client.clips.folders import BACKGROUND, Clip, check_label, clips_of_a_round, rejected, store_digest
from edge_client.clips.store import ClipStore, is_changing
from edge_client.config.sections import ClipsConfig
from edge_client.errors import ClipError, QuotaError
from fleet_protocol.bundle.feature_settings import PRESETS
from fleet_protocol.bundle.labels import is_name
from fleet_protocol.ground.atomic_files import write_durably

SETTINGS = PRESETS["gudur"]
RATE = SETTINGS.sample_rate_hz
DAY = 86_400


def store_at(folder, **limits):
    return ClipStore(folder, ClipsConfig(**limits), RATE)


def sound(seed, seconds=1.0):
    return np.random.default_rng(seed).uniform(-0.5, 0.5, round(seconds * RATE)).astype(np.float32)


def test_a_clip_is_what_training_reads_and_nobody_else_may_read_it(tmp_path):
    store = store_at(tmp_path / "clips")
    path = store.add("siren", sound(1), RATE)[0]
    recordings = Recordings(tmp_path / "clips", SETTINGS)
    assert recordings.labels() == store.labels() == ("siren",)
    np.testing.assert_allclose(recordings.load(recordings.clips("siren"))[0], sound(1), atol=2**-16)
    info = soundfile.info(path)
    assert (info.samplerate, info.channels, info.subtype) == (RATE, 1, "PCM_16")
    for entry in (tmp_path / "clips", *(tmp_path / "clips").rglob("*")):
        assert entry.stat().st_mode & 0o077 == 0, entry


def test_the_room_s_own_sound_is_kept_but_is_no_label(tmp_path):
    store = store_at(tmp_path)
    store.add_background(sound(1, 40.5), RATE, 1.0)
    assert len(list((tmp_path / BACKGROUND).glob("*.wav"))) == 30  # the newest are kept
    assert store_digest(tmp_path) is None  # nothing to learn
    assert store.labels() == ()
    assert store.clips() == []
    assert store.size_bytes() > 0
    assert Recordings(tmp_path, SETTINGS).labels() == ()


def test_what_is_not_a_label_is_kept_beside_the_labels_and_is_none(tmp_path):
    store = store_at(tmp_path)
    store.add("stop", sound(1), RATE)
    before = store_digest(tmp_path)
    path = store.add(rejected("stop"), sound(2), RATE)[0]
    assert path.parent == tmp_path / "_not_" / "stop"
    assert store_digest(tmp_path) != before  # there is something to learn
    assert store.labels() == Recordings(tmp_path, SETTINGS).labels() == ("stop",)
    assert [clip.label for clip in store.clips()] == ["stop"]
    assert [clip.path for clip in store.clips(rejected("stop"))] == [path]
    assert clips_of_a_round(tmp_path, 300) == 1
    assert store.find(f"_not_/stop/{path.stem}").path == path
    assert store.relabel(store.clips(rejected("stop"))[0], "stop").label == "stop"
    assert len(store.clips("stop")) == 2
    store.delete(Clip("stop", store.add(rejected("stop"), sound(3), RATE)[0]))
    assert store.clips(rejected("stop")) == []
    with pytest.raises(ClipError, match="cannot be a label"):
        store.add("_not_/../x", sound(1), RATE)


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ("", "empty"),
        ("a/b", "/ or"),
        ("..", "start with _ or ."),
        ("_x", "start with _ or ."),
        ("a\nb", "printable"),
        ("a\u202eb", "printable"),  # turns the direction of writing
        ("T\udcfcr", "printable"),  # of a name that was no UTF-8
        ("\u200d", "printable"),  # shows nothing
        ("x" * 101, "100 characters"),
        ("語" * 90, "240 bytes in UTF-8, not 270"),
        *((word, "Home Assistant has this word") for word in ("unknown", "None", "UNAVAILABLE")),
    ],
)
def test_a_name_that_cannot_be_a_label_is_refused_with_the_reason(tmp_path, label, reason):
    with pytest.raises(ClipError, match="cannot be a label") as refused:
        store_at(tmp_path).add(label, sound(1), RATE)
    assert reason in str(refused.value)
    assert list(tmp_path.rglob("*.wav")) == []


@pytest.mark.parametrize(
    ("given", "label"),
    [
        ("cafe\u0301", "café"),
        ("サイレン", "サイレン"),
        ("\u00a0front \u2003door\u3000", "front door"),
        *(
            (word, word)
            for word in ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "क्\u200dष", "👩\u200d🍳", "🫨")
        ),
        ("🏴\U000e0067\U000e0062\U000e007f", "🏴\U000e0067\U000e0062\U000e007f"),
    ],
)
def test_labels_are_any_language_s_words_composed_with_what_joins_letters_and_single_blanks(tmp_path, given, label):
    assert check_label(given) == check_name(given.strip(), "a class") == label
    assert is_name(label)  # as a server's answers are checked
    store = store_at(tmp_path)
    store.add(given, sound(1), RATE)
    assert store.labels() == (label,)


@given(st.text(max_size=120))
def test_every_label_that_is_taken_is_a_folder_of_its_own(text):
    try:
        label = check_label(text)
    except ClipError:
        return
    assert (Path("/clips") / label).parent == Path("/clips")
    assert len(os.fsencode(label)) <= 255
    assert check_label(label) == label


@pytest.mark.parametrize("samples", [np.zeros((2, 5)), np.zeros(0), np.array([np.nan])])
def test_samples_that_are_no_clip_are_refused(tmp_path, samples):
    with pytest.raises(ClipError, match="one channel of finite samples"):
        store_at(tmp_path).add("siren", samples.astype(np.float32), RATE)


def test_a_full_store_refuses_and_says_what_to_do(tmp_path):
    store = store_at(tmp_path, quota_mb=0.1)
    for seed in range(3):
        store.add("siren", sound(seed), RATE)
    with pytest.raises(QuotaError, match=r"take 0\.1 MB of the 0\.1 MB.*quota_mb.*clips delete"):
        store.add("siren", sound(3), RATE)
    store.delete(store.clips()[0])
    store.add("siren", sound(3), RATE)
    assert store.size_bytes() <= 100_000


def test_clips_are_found_by_their_beginning_moved_and_deleted(tmp_path):
    store = store_at(tmp_path)
    store.add("siren", sound(1), RATE)
    other = store.find(store.add("siren", sound(2), RATE)[0].stem)
    assert store.find(f"siren/{other.clip_id[:6]}") == other
    before = store_digest(tmp_path)
    moved = store.relabel(other, "horn")
    assert (moved.label, moved.clip_id) == ("horn", other.clip_id)
    assert store.labels() == ("horn", "siren")
    assert store_digest(tmp_path) != before
    store.delete(moved)
    assert store.labels() == ("siren",)
    assert not (tmp_path / "horn").exists()
    with pytest.raises(ClipError, match="is gone"):
        store.delete(moved)
    with pytest.raises(ClipError, match="no clip is called"):
        store.find(moved.clip_id)
    path = store.add("horn", sound(1), RATE)[0]
    with pytest.raises(ClipError, match=f"horn/{path.stem}, siren/{path.stem}"):
        store.find(path.stem)  # a beginning that fits several is not guessed
    assert store.find(f"horn/{path.stem}").label == "horn"


@pytest.mark.parametrize("folder", ["kettle", "_background_", "_not_/siren"])
@pytest.mark.parametrize("half", [False, True])
def test_a_folder_in_which_a_killed_process_left_no_clip_goes_after_a_day(tmp_path, folder, half):
    store = store_at(tmp_path)
    kept = store.add("siren", sound(1), RATE)[0]
    (tmp_path / folder).mkdir(parents=True)
    foreign = tmp_path / "siren" / ".DS_Store"
    foreign.write_bytes(b"x")
    if half:
        (tmp_path / folder / ".0123456789abcdef.wav.89abcdef").write_bytes(b"RIFF")
    hour = time.time() + 3600
    os.utime(tmp_path / folder, (hour - 3600, hour - 3600))
    store_at(tmp_path).tidy(hour)
    assert list((tmp_path / folder).iterdir()) == []  # its owner may be about to fill it
    os.utime(tmp_path / folder, (hour - DAY, hour - DAY))
    os.utime(kept.parent, (hour - DAY, hour - DAY))
    store_at(tmp_path).tidy(hour + 1)
    assert not (tmp_path / folder).exists()
    assert [clip.path for clip in store.clips()] == [kept]
    assert foreign.exists()


def test_only_one_process_changes_the_store_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("edge_client.clips.store._PATIENCE_S", 0.1)
    first, second = store_at(tmp_path), store_at(tmp_path)
    with first.changing():
        first.add("siren", sound(1), RATE)
        assert is_changing(tmp_path)
        assert len(second.clips()) == 1  # whoever reads needs no lock
        with pytest.raises(ClipError, match="another command is changing"):
            second.add("siren", sound(2), RATE)
        assert not second.tidy()  # the daemon's housekeeping waits for another time
    second.add("siren", sound(2), RATE)
    assert not is_changing(tmp_path)


def test_a_store_whose_disk_fails_is_not_held_for_good(tmp_path, monkeypatch):
    store = store_at(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(store, "size_bytes", lambda: (tmp_path / "gone").stat().st_size)
        with pytest.raises(FileNotFoundError), store.changing():
            pass
    assert not is_changing(tmp_path)
    with store.changing():
        assert is_changing(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write for another user")
def test_what_root_writes_belongs_to_the_daemon_s_user(tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    os.chown(state, 12_345, 12_346)
    store_at(state / "clips").add("siren", sound(1), RATE)
    write_durably(state / "outbox" / "news.json", b"{}")
    for path in state.rglob("*"):
        assert (path.stat().st_uid, path.stat().st_gid) == (12_345, 12_346), path
