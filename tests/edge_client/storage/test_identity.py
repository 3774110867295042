"""A device's identity and the key of its noise are drawn once, and readable by their owner alone."""

from edge_client.storage.device_state import DeviceState


def test_the_identity_is_drawn_once_and_private(tmp_path):
    state = DeviceState(tmp_path / "state")
    first = state.identity.load()
    assert DeviceState(tmp_path / "state").identity.load() == first
    assert len(first.device_id) == 32
    assert len(first.secret) >= 32
    assert (tmp_path / "state" / "identity.json").stat().st_mode & 0o077 == 0
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0


def test_the_key_of_the_noise_is_drawn_once_and_private(tmp_path):
    keys = {DeviceState(tmp_path / name).identity.noise_key() for name in ("a", "a", "b")}
    assert {len(key) for key in keys} == {32}
    assert len(keys) == 2
    assert (tmp_path / "a" / "noise.key").stat().st_mode & 0o077 == 0
