"""Unknown sounds are kept for their owner to name: the newest few, for a while, and for nobody else to hear."""

import numpy as np

from edge_client.audio.recordings import read_recording
from edge_client.clips.store import ClipStore
from edge_client.clips.unknown_clips import DetectedClips, UnknownClips
from edge_client.config.sections import ClipsConfig

RATE = 14_400
NOW = 1_800_000_000.0


def ring_at(folder, **limits):
    return UnknownClips(folder, ClipsConfig(unknown_days=36_500, **limits), RATE)


def window(seed):
    return np.random.default_rng(seed).uniform(-0.5, 0.5, RATE).astype(np.float32)


def test_the_newest_sounds_are_kept_and_private(tmp_path):
    ring = ring_at(tmp_path / "unknown", unknown_count=3)
    for number in range(5):
        ring.add(NOW + number / 8, number / 10, window(number))
    sounds = ring.sounds()
    assert [sound.heard_at for sound in sounds] == [NOW + 0.5, NOW + 0.375, NOW + 0.25]
    assert [sound.score for sound in sounds] == [0.4, 0.3, 0.2]
    np.testing.assert_allclose(read_recording(sounds[0].path, RATE), window(4), atol=2**-16)
    for path in (tmp_path / "unknown", *(tmp_path / "unknown").iterdir()):
        assert path.stat().st_mode & 0o077 == 0


def test_sounds_expire_and_what_a_power_cut_left_goes(tmp_path):
    ring = UnknownClips(tmp_path, ClipsConfig(unknown_days=7), RATE)
    ring.add(NOW * 2, 0.1, window(1))
    half = tmp_path / ".00000001-0123456789012-0100-01234567.wav.89abcdef"
    half.write_bytes(b"RIFF")
    ring.tidy(NOW * 2 + 6 * 86_400)
    assert len(ring.sounds()) == 1
    assert not half.exists()
    ring.tidy(NOW * 2 + 8 * 86_400)
    assert ring.sounds() == []


def test_a_named_sound_moves_into_the_store_whole(tmp_path):
    ring, store = ring_at(tmp_path / "unknown"), ClipStore(tmp_path / "clips", ClipsConfig(), RATE)
    ring.add(NOW, 0.1, window(1))
    sound = ring.find(ring.sounds()[0].clip_id[:4])
    content = sound.path.read_bytes()
    path = store.take_in(sound.path, "doorbell")
    assert path.read_bytes() == content
    assert ring.sounds() == []
    assert store.labels() == ("doorbell",)
    assert path == store.add("doorbell", window(1), RATE)[0]  # the very clip that the store would have made


def test_detected_sounds_are_kept_only_where_the_owner_wants_it_and_found_by_their_event(tmp_path):
    DetectedClips(tmp_path / "none", ClipsConfig(), RATE).add(NOW, 0.9, window(1))
    ring_at(tmp_path / "none", unknown_count=0).add(NOW, 0.1, window(1))
    assert not (tmp_path / "none").exists()
    ring = DetectedClips(tmp_path / "detected", ClipsConfig(detected_count=2, detected_days=36_500), RATE)
    for number in range(3):
        ring.add(NOW + number + 0.123456, 0.9, window(number))
    assert ring.heard_at(NOW + 0.123456) is None  # newer ones took its place
    sound = ring.heard_at(NOW + 2.123456)
    np.testing.assert_allclose(read_recording(sound.path, RATE), window(2), atol=2**-16)
