"""100 single bit flips in every file of a device's state folder: each is noticed or harmless, none is loaded."""

import contextlib
import os
import shutil
import signal
import sqlite3

import numpy as np
import pytest

from edge_client.audio.recordings import Recordings
from edge_client.clips.embedding_cache import EmbeddingCache
from edge_client.clips.store import ClipStore
from edge_client.clips.unknown_clips import UnknownClips
from edge_client.config.sections import ClipsConfig
from edge_client.daemon.status import StatusFile, read_status
from edge_client.errors import RecordingError, StateError
from edge_client.events import Event
from edge_client.events.journal import Journal, past_events
from edge_client.storage.checked_files import copy_of, read_checked
from edge_client.storage.device_state import DeviceState
from edge_client.storage.identity import Membership
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.ground.atomic_files import write_durably
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassInfo
from fleet_protocol.numbers.tensors import digest, pack, unpack
from tests.support.edge_process import EdgeDaemon, wait_for
from tests.support.flips import flips
from tests.support.sounds import melody
from tests.support.taught_device import Device

FLIPS = 100
BUNDLE = find_bundle("base")
SETTINGS = read_bundle(BUNDLE).manifest.feature_settings


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """The state folder of a device that was taught two sounds, heard others, and has something to send."""
    device = Device(tmp_path_factory.mktemp("device"), BUNDLE)
    store = ClipStore(device.clips, ClipsConfig(), SETTINGS.sample_rate_hz)
    for label, sound in (("kettle", "yes"), ("bell", "stop")):
        for seed in range(4):
            store.add(label, melody(sound, np.random.default_rng(seed)), SETTINGS.sample_rate_hz)
    device.teach()
    state = device.state
    state.identity.load()
    state.membership.save(Membership("https://aggregator.example:8470", "a certificate"))
    rows = np.zeros((4, *SETTINGS.shape), np.float32)
    classes = (ClassInfo("c0", "yes"), ClassInfo("c1", "no"))
    public = PublicSet(SETTINGS, classes, rows, np.arange(4) % 2, np.zeros(4, np.bool_)).pack()
    write_durably(state.blobs.path(digest(public)), public)
    state.outbox.put(state.outbox.update_path(3), pack({"scores": rows}, {"round_id": 3}))
    state.outbox.put(state.outbox.learned_path(3), b'{"round_id": 3}')
    UnknownClips(state.unknown_folder, ClipsConfig(unknown_days=100_000), SETTINGS.sample_rate_hz).add(
        1_700_000_000.0, 0.25, melody("up", np.random.default_rng(5)).astype(np.float32)
    )
    journal = Journal(state.database, days=100_000)
    for number in range(60):
        journal.publish(event(number))
    journal.close()
    state.identity.signing_key()
    state.privacy.count("ab" * 32, None)
    StatusFile(state).write({"name": "shelf", "labels": ["kettle", "bell"]})
    return state.folder


def event(number):
    return Event(1_700_000_000.0 + number, "detected", "kettle", None, 0.9, -20.0)


@pytest.fixture
def state(taught, tmp_path):
    """A copy of it for one test."""
    return DeviceState(shutil.copytree(taught, tmp_path / "state"))


def model_of(state):
    saved = state.model.load(BUNDLE)
    return saved.progress, [array.tobytes() for array in (*saved.bundle.weights.values(), *saved.listening.values())]


KEPT_TWICE = {
    "model.safetensors": model_of,
    "identity.json": lambda state: state.identity.load(),
    "membership.json": lambda state: state.membership.load(),
    "signing.key": lambda state: state.identity.signing_key(),
    "privacy.json": lambda state: state.privacy.load(),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KEPT_TWICE)
def test_a_file_that_cannot_be_had_again_is_restored_from_its_copy(state, name):
    path, whole, clips = state.folder / name, KEPT_TWICE[name](state), state.model.taught()
    good = path.read_bytes()
    for number, damaged in enumerate(flips(good, FLIPS, seed=1)):
        path.write_bytes(damaged)
        assert KEPT_TWICE[name](state) == whole, number
        assert state.model.taught() == clips
    assert state.mend() == [f"{name} was damaged; its copy took its place"]
    assert path.read_bytes() == good
    for number, damaged in enumerate(flips(good, FLIPS, seed=2)):
        copy_of(path).write_bytes(damaged)
        assert KEPT_TWICE[name](state) == whole, number
    assert state.mend() == [f"{name}.copy was damaged, and was written anew"]
    assert copy_of(path).read_bytes() == good


MADE_AGAIN = {
    "outbox/update-3.safetensors": (lambda state: state.outbox.read(state.outbox.update_path(3)), None),
    "outbox/learned-3.json": (lambda state: state.outbox.read(state.outbox.learned_path(3)), None),
    "blobs/*": (lambda state: [state.blobs.has(path.name) for path in state.folder.glob("blobs/*")], [False]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE_AGAIN)
def test_a_file_that_can_be_made_again_is_never_used_damaged(state, name):
    (path,) = state.folder.glob(name)
    read, nothing = MADE_AGAIN[name]
    good, whole = path.read_bytes(), read(state)
    assert whole != nothing
    for number, damaged in enumerate(flips(good, FLIPS, seed=3)):
        path.write_bytes(damaged)
        assert read(state) == nothing, number
    path.write_bytes(damaged)
    assert state.mend() == [f"{path.relative_to(state.folder)} was damaged, and was removed; it will be made again"]
    assert not path.exists()


@pytest.mark.slow
def test_a_damaged_cache_of_embeddings_counts_as_empty(state):
    arrays, document = unpack(read_checked(state.embeddings_path))
    good, key = state.embeddings_path.read_bytes(), next(iter(arrays))
    for damaged in flips(good, FLIPS, seed=4):
        state.embeddings_path.write_bytes(damaged)
        cache = EmbeddingCache(state.embeddings_path, document["recipe"])
        assert cache.get(key, lambda: np.zeros(1)).tolist() == [0.0]
    state.embeddings_path.write_bytes(good)
    assert np.array_equal(EmbeddingCache(state.embeddings_path, document["recipe"]).get(key, list), arrays[key])


def test_a_damaged_status_is_not_shown(state):
    path = state.folder / "status.json"
    good, whole = path.read_bytes(), read_status(state)
    seen = set()
    for damaged in flips(good, FLIPS, seed=5):
        path.write_bytes(damaged)
        try:
            assert read_status(state) == whole
        except StateError as error:
            seen.add(str(error).partition(" (")[0])
    assert seen == {f"{path} is damaged"}


@pytest.mark.slow
def test_a_damaged_recording_is_left_out_with_a_message_and_kept(state, caplog):
    source = Recordings(state.folder / "clips", SETTINGS)
    path, *others = source.clips("kettle")
    good, whole = path.read_bytes(), source.load(others)
    for number, damaged in enumerate(flips(good, FLIPS, seed=6)):
        path.write_bytes(damaged)
        found = Recordings(state.folder / "clips", SETTINGS).load([path, *others])
        assert np.array_equal(found, whole), number
        assert path.read_bytes() == damaged
    assert caplog.text.count(f"{path} is damaged") == FLIPS
    assert state.mend() == []  # nothing of the owner's is removed
    path.write_bytes(good)
    assert len(source.load([path, *others])) == len(others) + 1


@pytest.mark.slow
def test_a_damaged_unknown_sound_gets_no_name(state):
    unknown = UnknownClips(state.unknown_folder, ClipsConfig(unknown_days=100_000), SETTINGS.sample_rate_hz)
    store = ClipStore(state.folder / "clips", ClipsConfig(), SETTINGS.sample_rate_hz)
    (sound,) = unknown.sounds()
    good = sound.path.read_bytes()
    for damaged in flips(good, FLIPS, seed=7):
        sound.path.write_bytes(damaged)
        with pytest.raises(RecordingError, match="is damaged"):
            store.take_in(sound.path, "kettle")
        assert sound.path.read_bytes() == damaged
    sound.path.write_bytes(good)
    assert store.take_in(sound.path, "kettle").read_bytes() == good


@pytest.mark.slow
def test_a_damaged_database_is_put_aside_and_what_can_be_read_goes_on(state, caplog):
    path, whole = state.database.path, state.advice()
    state.choices.set_threshold("bell", 0.7)
    good, aside = path.read_bytes(), path.with_name("state.sqlite3.damaged")
    noticed, kept = 0, []
    for number, damaged in enumerate(flips(good, FLIPS, seed=8)):
        for left in state.folder.glob("state.sqlite3*"):
            left.unlink()
        path.write_bytes(damaged)
        state = DeviceState(state.folder)
        said = [sentence for sentence in state.mend() if "put aside" in sentence]
        assert bool(said) == aside.exists()
        journal = Journal(state.database, days=100_000)
        journal.publish(event(1_000 + number))
        journal.close()
        times = [one.time for one in past_events(state.database, 100)]
        assert times[-1] == event(1_000 + number).time
        assert len(times) == 61 or aside.exists(), number
        assert state.advice() in (whole, [])
        state.choices.set_threshold("cup", 0.7)
        noticed += bool(said)
        kept.append(len(times))
        assert state.mend() == []
    assert 0 < noticed < FLIPS
    assert sorted(kept)[FLIPS // 10] > 50  # of nearly every damaged file most could be read


def test_a_daemon_that_journals_goes_on_in_the_new_database_after_damage(state):
    journal = Journal(state.database, days=100_000)
    journal.publish(event(1_000))
    wait_for(lambda: len(past_events(state.database, 100)) == 61)
    with contextlib.closing(sqlite3.connect(state.database.path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events_by_time'").fetchone()
    with state.database.path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(bytes(100))
    (said,) = state.mend()
    assert "what could be read was kept" in said
    journal.publish(event(1_001))
    wait_for(lambda: event(1_001) in past_events(state.database, 100))
    assert len(past_events(state.database, 100)) == 62
    journal.close()


def test_a_daemon_goes_on_with_the_last_good_copies_and_says_so(state, tmp_path):
    daemon = EdgeDaemon(tmp_path / "edge", BUNDLE, "[clips]\nunknown_days = 100000\n")
    shutil.move(state.folder, daemon.state)
    state = DeviceState(daemon.state)
    identity, model = state.identity.load(), model_of(state)
    for name in ("model.safetensors", "identity.json"):
        path = daemon.state / name
        path.write_bytes(next(flips(path.read_bytes(), 1, seed=9)))
    daemon.start(dict(os.environ))
    said = wait_for(lambda: daemon.status().get("damage"), what="the status")
    assert [sentence.split(": ", 1)[1] for sentence in said] == [
        "identity.json was damaged; its copy took its place",
        "model.safetensors was damaged; its copy took its place",
    ]
    assert daemon.status()["model"]["labels"] == ["bell", "kettle"]
    assert "damage    " in daemon.command("status").stdout
    assert daemon.end(signal.SIGTERM) == 0
    assert "model.safetensors was damaged; its copy took its place; the memory card" in daemon.log()
    assert (state.identity.load(), model_of(state)) == (identity, model)
