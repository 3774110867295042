"""What lies in the store is read again where its folders changed, and only there."""

import os
import time

from edge_client.clips.folders import choose_known, known_labels, labels_with_clips, store_digest

LONG_AGO = time.time() - 3600


def aged(*paths):
    for path in paths:
        os.utime(path, (LONG_AGO, LONG_AGO))


def test_names_of_a_store_that_rests_are_not_read_again_and_every_change_is_seen(tmp_path):
    bell = tmp_path / "bell"
    bell.mkdir()
    (bell / "1.wav").touch()
    assert labels_with_clips(tmp_path) == ("bell",)
    (bell / "at-once.wav").touch()
    aged(tmp_path, bell)
    first = store_digest(tmp_path)
    (bell / "1.wav").rename(bell / "2.wav")
    aged(tmp_path, bell)
    assert store_digest(tmp_path) == first  # as it would not be, had the names been read
    (bell / "more.wav").touch()
    second = store_digest(tmp_path)
    (bell / "more.wav").rename(bell / "other.wav")
    third = store_digest(tmp_path)
    (tmp_path / "_not_" / "bell").mkdir(parents=True)
    (tmp_path / "_not_" / "bell" / "1.wav").touch()
    fourth = store_digest(tmp_path)
    choose_known(tmp_path, "door", "bark")
    assert known_labels(tmp_path) == {"door": "bark"}
    assert len({first, second, third, fourth, store_digest(tmp_path)}) == 5
    aged(tmp_path, bell, tmp_path / "door", tmp_path / "_not_", tmp_path / "_not_" / "bell")
    assert labels_with_clips(tmp_path) == ("bell",)
    (tmp_path / "cup").mkdir()
    (tmp_path / "cup" / "1.wav").touch()
    assert labels_with_clips(tmp_path) == ("bell", "cup")


def test_a_folder_that_changed_a_moment_ago_is_read_again_whatever_its_time_says(tmp_path, monkeypatch):
    bell = tmp_path / "bell"
    bell.mkdir()
    (bell / "1.wav").touch()
    now = time.time()
    monkeypatch.setattr(time, "time_ns", lambda: round(now * 1e9))
    os.utime(bell, (now, now))
    before = store_digest(tmp_path)
    (bell / "2.wav").touch()
    os.utime(bell, (now, now))
    assert store_digest(tmp_path) != before
