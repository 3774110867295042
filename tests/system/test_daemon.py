"""The whole daemon on a real sound server, without TensorFlow: it hears, is taught, outlives what happens to it."""

import os
import signal
import socket
import time

import numpy as np
import pytest

from tests.support.checkout import without_tensorflow
from tests.support.edge_process import EdgeDaemon, wait_for
from tests.support.sound_server import crash, quiet_room, said
from tests.support.sounds import write_clips

pytestmark = pytest.mark.slow

SECTIONS = """
[microphone]
device = "shelf_microphone"
silent_s = 5
[detector]
unknown_threshold = 0.6
[training]
teach_epochs = 8
nice = 0
"""
LABELS = {"yes", "up", "stop"}


@pytest.fixture
def shelf(tmp_path, sound_server):
    with EdgeDaemon(tmp_path / "shelf", "base", SECTIONS) as device:
        yield device


def frames(device):
    return (device.status().get("listening") or {}).get("frames", 0)


def test_it_is_taught_hears_outlives_its_microphone_and_learns_again_on_another_front_end(
    shelf, sound_server, tmp_path
):
    environment, rng = without_tensorflow(tmp_path), np.random.default_rng(7)
    shelf.start(environment)
    sound_server.play_on(quiet_room(rng))
    wait_for(lambda: frames(shelf) > 0, what="the first sound")
    assert (shelf.status()["model"]["labels"], shelf.status()["server"]) == ([], None)
    for label in sorted(LABELS):
        write_clips(tmp_path / "new", label, 12, seed=3)
    shelf.command("import", str(tmp_path / "new"))
    wait_for(lambda: shelf.labels() == LABELS, what="the new labels")
    assert shelf.status()["training"]["trained"] >= 1

    def hears(label):
        before = len(shelf.events())
        sound_server.play_until(
            lambda: said(label, rng),
            lambda: any(e["label"] == label and e["kind"] == "detected" for e in shelf.events()[before:]),
            f"{label!r} after {shelf.events()}",
        )

    hears("yes")
    # A sound that it does not know is kept for its owner to name; it begins in a quiet room.
    time.sleep(3)
    sounds = shelf.state / "unknown"
    sound_server.play_until(
        crash, lambda: sounds.is_dir() and list(sounds.glob("*.wav")), "an unknown sound", patience_s=10
    )
    pid = shelf.status()["pid"]
    sound_server.kill()
    heard = frames(shelf)
    sound_server.start()
    sound_server.play_on(quiet_room(rng))
    wait_for(lambda: frames(shelf) > heard + 16_000 or 0 < frames(shelf) < heard, what="sound after the interruption")
    hears("stop")
    assert shelf.status()["pid"] == pid
    assert "linear: " in (told := shelf.command("status").stdout)
    assert "listening" in told
    assert shelf.end(signal.SIGTERM) == 0
    assert shelf.command("status", check=False).returncode == 3

    # As after an upgrade that brings another front end.
    shelf.config.write_text(shelf.config.read_text().replace('"base"', '"base_int8"'))
    (shelf.runtime / "status.json").unlink(missing_ok=True)
    shelf.start(environment)
    wait_for(lambda: shelf.labels() == LABELS, what="the labels, learned again")
    assert "another front end than before" in shelf.log()
    assert shelf.end(signal.SIGTERM) == 0


def test_systemd_is_told_that_it_is_ready_that_it_lives_and_that_it_ends(shelf, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(180)
        shelf.start({**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert b"READY=1" in manager.recv(1000)
        assert b"WATCHDOG=1" in manager.recv(1000)
        shelf.process.send_signal(signal.SIGTERM)
        while b"STOPPING=1" not in manager.recv(1000):
            pass
    assert shelf.process.wait(180) == 0
