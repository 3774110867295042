"""The daemon lends its microphone to whoever records, and takes it back, however the recorder ends."""

import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from edge_client.capture.shared_microphone import LentMicrophone, borrowed_microphone
from edge_client.errors import BusyError

BORROWER = """
import sys, time
from pathlib import Path
from edge_client.capture.shared_microphone import borrowed_microphone
with borrowed_microphone(Path(sys.argv[1]), 180.0):
    print("mine", flush=True)
    time.sleep(600)
"""


class Hardware:
    """A microphone that one opener at a time can have, as a sound card."""

    def __init__(self):
        self.open = 0

    def source(self, closing=None):
        assert self.open == 0, "opened twice"
        self.open += 1
        hardware = self

        class Source:
            sample_rate_hz, frames, overflows, reopened, trouble = 14_400, 0, 1, 0, ""

            def read(self, samples, timeout_s):
                return np.zeros(samples, np.float32)

            def close(self):
                hardware.open -= 1

        return Source()


@pytest.fixture
def daemon(tmp_path):
    """A loop that listens for as long as the test goes on."""
    hardware, stop = Hardware(), threading.Event()
    microphone = LentMicrophone(hardware.source, 14_400, tmp_path)
    microphone.heard = threading.Event()

    def listen():
        while not stop.is_set():
            if len(microphone.read(1_440, 0.1)):
                microphone.heard.set()
            stop.wait(0.01)
        microphone.close()

    thread = threading.Thread(target=listen)
    thread.start()
    assert microphone.heard.wait(180)
    yield hardware, microphone
    stop.set()
    thread.join()


def test_a_recorder_gets_the_microphone_while_the_daemon_runs_and_the_daemon_gets_it_back(tmp_path, daemon):
    hardware, microphone = daemon
    for _ in range(3):
        with borrowed_microphone(tmp_path, 180.0):
            assert hardware.open == 0
            assert microphone.lent
            hardware.source().close()
            microphone.heard.clear()
        assert microphone.heard.wait(180)
        assert not microphone.lent
    assert microphone.overflows == 4  # counted on over every opening


def test_a_recorder_that_is_killed_does_not_keep_the_microphone(tmp_path, daemon):
    _, microphone = daemon
    child = subprocess.Popen([sys.executable, "-c", BORROWER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "mine\n"
    microphone.heard.clear()
    assert not microphone.heard.wait(0.3)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert microphone.heard.wait(180)


def test_two_recorders_do_not_get_it_at_once(tmp_path):
    refused = pytest.raises(BusyError, match="another `auricle-edge record`")
    with borrowed_microphone(tmp_path), refused, borrowed_microphone(tmp_path):
        pass


def test_a_daemon_that_does_not_let_go_is_named(tmp_path):
    holder = LentMicrophone(Hardware().source, 14_400, tmp_path)
    holder.read(10, 0.1)  # and never again
    refused = pytest.raises(BusyError, match="systemctl stop auricle-edge")
    with refused, borrowed_microphone(tmp_path, patience_s=0.2):
        pass
    holder.close()
    with borrowed_microphone(tmp_path):
        pass
