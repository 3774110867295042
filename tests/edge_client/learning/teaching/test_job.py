"""What the owner teaches is heard at once, what was known stays known, and a power cut costs nothing but time."""

import dataclasses
import shutil
import tracemalloc

import numpy as np
import pytest

from edge_client.clips.public_set import build_public_set
from edge_client.clips.store import ClipStore
from edge_client.features.mfcc import Mfcc
from edge_client.learning.teaching.hearing import artificial_noise
from edge_client.learning.teaching.job import go_over, to_teach
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.saved_model import Progress
from fleet_protocol.atomic_files import write_durably
from fleet_protocol.feature_settings import PRESETS
from fleet_protocol.labels import LabelMap
from fleet_protocol.tensors import digest
from tests.support.sounds import write_clips
from tests.support.taught_device import Device, recall

pytestmark = pytest.mark.slow

SETTINGS = PRESETS["gudur"]


@pytest.fixture
def device(tmp_path, bundles):
    return Device(tmp_path, bundles["cnn2"])


@pytest.fixture(scope="module")
def taught(tmp_path_factory, bundles):
    """A device that knew nothing, and was taught three sounds; for tests that change it, a copy."""
    device = Device(tmp_path_factory.mktemp("taught"), bundles["cnn2"])
    assert device.to_teach() is None
    for label in ("yes", "no", "stop"):
        write_clips(device.clips, label, 8, seed=1)
    assert device.to_teach() is not None
    device.teach()
    return device


@pytest.fixture(scope="module")
def grown_up(tmp_path_factory, bundles):
    """A device that got `yes`, `no` and `up` from the fleet and has no clip of them; for each test a copy."""
    device = Device(tmp_path_factory.mktemp("grown up"), bundles["cnn2"])
    for label in ("yes", "no", "up"):
        write_clips(device.clips, label, 16, seed=3)
    saved = device.teach()
    linked = saved.progress.label_map
    for slot, name in enumerate(linked.names):
        linked = linked.link(slot, name)
    progress = Progress(architecture="cnn2", label_map=linked, contributed=3, learned=2)
    device.state.model.save(saved.bundle.weights, saved.listening, progress)
    shutil.rmtree(device.clips)
    return device


def copied(device, folder, **sections):
    return Device(shutil.copytree(device.folder, folder, dirs_exist_ok=True), device.bundle, **sections)


def test_a_device_that_knows_nothing_is_taught_its_first_sounds(tmp_path, taught):
    device, saved = taught, taught.state.model.load(taught.bundle)
    assert saved.progress.label_map == LabelMap(32).add("no").add("stop").add("yes")
    assert min(recall(tmp_path, saved, label) for label in ("yes", "no", "stop")) > 0.8
    assert device.to_teach() is None
    assert (device.state.folder / "model.safetensors").stat().st_mode & 0o077 == 0

    quiet = artificial_noise(50, SETTINGS, np.random.default_rng(7))
    model = ModelRuntime(saved.listening_bundle)
    scores = model.predict(model.normalise(Mfcc(SETTINGS)(quiet)), saved.progress.label_map.mask)
    assert (scores.max(axis=1) > 0.6).mean() < 0.2  # it stays undecided where there is no sound in particular


@pytest.mark.parametrize("public", [True, False], ids=["public set", "impressions"])
def test_a_new_sound_takes_a_slot_and_what_the_fleet_taught_is_not_forgotten(tmp_path, grown_up, public):
    device = copied(grown_up, tmp_path / "device")
    if public:
        for label in ("yes", "no", "up", "down"):
            write_clips(tmp_path / "public", label, 12, seed=99)
        blob = build_public_set(tmp_path / "public", SETTINGS, ["yes", "no", "up", "down"], 12).pack()
        write_durably(device.state.blobs.path(digest(blob)), blob)
    before = device.state.model.load(device.bundle)
    write_clips(device.clips, "stop", 8, seed=5)
    saved = device.teach()
    assert saved.progress.label_map.names == (*before.progress.label_map.names, "stop")
    assert saved.progress.label_map.class_ids[-1] is None  # the next round reports it
    assert (saved.progress.contributed, saved.progress.learned) == (3, 2)
    for listening in (True, False):
        assert recall(tmp_path, saved, "stop", listening=listening) > 0.7
        known = [recall(tmp_path, saved, label, listening=listening) for label in ("yes", "no", "up")]
        assert np.mean(known) > (0.85 if public else 0.6)


def test_a_label_without_clips_is_forgotten_unless_clips_expire_by_themselves(tmp_path, taught):
    for name, sections in {"deleted": {}, "expired": {"clips": "expire_days = 30"}}.items():
        device = copied(taught, tmp_path / name, **sections)
        shutil.rmtree(device.clips / "stop")
        assert device.to_teach() is not None
        saved = device.teach()
        assert saved.progress.label_map.names == ("no", "stop", "yes")  # its slot is never another sound's
        known = recall(tmp_path, saved, "stop")
        assert known < 0.2 if name == "deleted" else known > 0.5


def test_nothing_is_taught_without_a_microphone_or_while_clips_are_changing(tmp_path, device):
    store = ClipStore(device.clips, device.config.clips, SETTINGS.sample_rate_hz)
    with store.changing():
        write_clips(device.clips, "stop", 1, seed=1)
        assert device.to_teach() is None
    assert device.to_teach() is not None
    deaf = dataclasses.replace(device.config, microphone=None)
    assert to_teach(deaf, device.state) is None


def test_a_lesson_without_readable_clips_says_so(device):
    (device.clips / "stop").mkdir(parents=True)
    (device.clips / "stop" / "a.wav").write_bytes(b"no sound")
    with device.worker() as child:
        errors = child.stderr.read().decode()
        assert child.wait(180) == 1
    assert "no readable clips" in errors
    assert "Traceback" not in errors
    assert not (device.state.folder / "model.safetensors").exists()


def test_a_lesson_of_many_clips_fits_into_a_small_board(tmp_path, bundles):
    device = Device(tmp_path, bundles["cnn2"], training="teach_epochs = 1")
    for label in ("yes", "no", "stop", "up"):
        write_clips(device.clips, label, 150, seed=1)
    saved = device.state.model.load(device.bundle)
    tracemalloc.start()
    go_over(device.config, device.state, saved)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 80e6  # systemd/auricle-edge.service ends what reaches 256 MB
