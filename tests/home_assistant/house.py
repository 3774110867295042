"""A house with Home Assistant, a broker, a device that hears what is played, its wake words, and satellites."""

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from edge_client.audio.resampling import resample
from fleet_protocol.ground.sample_sounds import RATE_HZ, save, takes
from fleet_protocol.numbers.arrays import Floats
from tests.home_assistant.core import HomeAssistant
from tests.home_assistant.environment import Environment
from tests.support.checkout import ROOT
from tests.support.desk import free_port
from tests.support.edge_process import BRISK, EdgeDaemon, wait_for
from tests.support.mqtt_broker import Broker
from tests.support.sound_server import SINK_RATE_HZ, SoundServer, quiet_room

LABELS = ("doorbell", "knock", "bark", "telephone")
_TAKES, _TAKE_S, _LONG_S = 6, 2, 40
_SECTIONS = '[microphone]\ndevice = "shelf_microphone"\n[mqtt]\nhost = "127.0.0.1"\nport = {port}\n'


class Device(EdgeDaemon):
    """The device "shelf", which was taught :data:`LABELS`, in a room with a loudspeaker."""

    def __init__(self, folder: Path, broker: Broker, ends: contextlib.ExitStack) -> None:
        """Teach it, and set up its room."""
        super().__init__(folder / "shelf", "sounds_2s", _SECTIONS.format(port=broker.port) + BRISK)
        (folder / "sound").mkdir()
        self.sound = SoundServer(folder / "sound")
        os.environ.update(self.sound.environment)
        ends.callback(self.sound.kill)
        self.sound.start()
        ends.enter_context(self)
        self.recordings: dict[str, Floats] = {}
        rng = np.random.default_rng(1)
        for label in LABELS:
            (heard,) = takes(label, 1, _LONG_S * RATE_HZ, rng)
            heard *= 0.5 / np.abs(heard).max()  # a take that is clipped is refused
            for number in range(_TAKES):
                begin = number * len(heard) // _TAKES
                save(folder / "taught" / label / f"{number}.wav", heard[begin : begin + _TAKE_S * RATE_HZ])
            save(folder / f"{label}.wav", heard)
            self.recordings[label] = heard
        self.command("import", folder / "taught")

    def switch_on(self) -> None:
        """Start it, and wait until it hears."""
        self.sound.play_on(quiet_room(np.random.default_rng(2)))
        self.start(os.environ)
        wait_for(lambda: self.labels() >= {*LABELS} and self.status().get("listening", True), 300, "the device's start")

    def play(self, label: str, seconds: float) -> None:
        """Begin to play so much of a sound that it was taught."""
        self.sound.play(self._samples(label)[: round(seconds * SINK_RATE_HZ)])

    def play_on(self, label: str) -> subprocess.Popen[bytes]:
        """Begin to play a sound, until the player that is returned is killed."""
        return self.sound.play_on(self._samples(label))

    def _samples(self, label: str) -> Floats:
        return resample(self.recordings[label], RATE_HZ, SINK_RATE_HZ)


class House:
    """All of it; what it starts ends with a stack."""

    def __init__(self, environment: Environment, satellite: Path, folder: Path, ends: contextlib.ExitStack) -> None:
        """Start everything."""
        self.folder, self._satellite, self._ends = folder, satellite, ends
        (folder / "broker").mkdir()
        self.broker = Broker(folder / "broker")
        ends.callback(lambda: self.broker.kill())  # the one of then
        self.device = Device(folder, self.broker, ends)
        self.device.switch_on()
        self.voice_port = free_port()
        self.voice_entry: dict[str, Any] = {}  # Home Assistant's, once it has one
        self.voice = f"tcp://127.0.0.1:{self.voice_port}"
        service = ("wyoming", "--uri", self.voice, "--config", self.device.config)
        self._leave("wyoming", sys.executable, "-m", "edge_client.cli", *service)
        wait_for(lambda: _listens(self.voice_port), 300, "the wake words' service")
        self.core = HomeAssistant(environment, folder / "home-assistant.log")
        ends.callback(self.core.kill)
        self.core.start()

    def start_recogniser(self) -> int:
        """Start what stands in for a recogniser of speech; return its port."""
        port = free_port()
        self._leave("recogniser", sys.executable, "-m", "tests.home_assistant.recogniser", f"tcp://127.0.0.1:{port}")
        wait_for(lambda: _listens(port), 120, "the recogniser")
        return port

    def start_satellite(self, label: str) -> tuple[int, Path]:
        """Start a satellite whose microphone hears a sound all the time; return its port, and its log."""
        port, recording = free_port(), self.folder / f"{label}.wav"
        played = [sys.executable, "-m", "edge_client.capture.file_player", str(recording), str(RATE_HZ), "repeat"]
        options = ["--uri", f"tcp://127.0.0.1:{port}", "--name", f"satellite {port}", "--no-zeroconf", "--debug"]
        options += ["--mic-command", shlex.join(played), "--wake-uri", self.voice, "--wake-word-name", "doorbell"]
        log = self._leave(f"satellite-{port}", self._satellite, "-m", "wyoming_satellite", *options)
        wait_for(lambda: _listens(port), 120, "the satellite")
        return port, log

    def _leave(self, name: str, *words: str | Path) -> Path:
        path, command = self.folder / f"{name}.log", [str(word) for word in words]
        with path.open("ab") as log:
            program = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
        self._ends.callback(program.wait)
        self._ends.callback(os.killpg, program.pid, signal.SIGKILL)
        return path


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 5).close()
        return True
    return False
