"""A PulseAudio server of the tests' own, whose microphones hear what the tests play: the monitors of null sinks.

ALSA sees them as `shelf_microphone` and `cellar_microphone`, and as `plughw:CARD=Shelf,DEV=0` a card that knows no
rate but 44.1 kHz. It needs no sound hardware, and touches nobody else's server.
"""

import contextlib
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edge_client.audio.resampling import resample
from tests.support.sounds import RATE, melody

PROGRAMS = ("pulseaudio", "pactl", "pacat", "arecord")
SINK_RATE_HZ = 48_000
ALSA = """
</usr/share/alsa/alsa.conf>
pcm.shelf_microphone {{
    type pulse
    server "{server}"
    device "shelf.monitor"
    hint {{ show on  description "USB microphone on a shelf" }}
}}
pcm.cellar_microphone {{
    type pulse
    server "{server}"
    device "cellar.monitor"
    hint {{ show on  description "USB microphone in the cellar" }}
}}
"""


def no_sound_devices(folder: Path) -> dict[str, str]:
    """The environment of a machine that has none: ALSA knows no card, and no server answers."""
    (folder / "alsa.conf").write_text("</usr/share/alsa/alsa.conf>\nctl.!hw { type null }\ndefaults.pcm.card 99\n")
    return {"ALSA_CONFIG_PATH": f"{folder}/alsa.conf", "PULSE_SERVER": f"unix:{folder}/nobody"}


def missing_parts() -> str:
    """Say what a test machine lacks; "" when it has everything."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    plugin = next(Path("/usr/lib").glob("*/alsa-lib/libasound_module_pcm_pulse.so"), None)
    return ", ".join(missing + ([] if plugin else ["ALSA's plug-in for PulseAudio (libasound2-plugins)"]))


def _player(sink: str, samples: np.ndarray) -> list[str]:
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    form = ["--raw", "--format=float32le", f"--rate={SINK_RATE_HZ}", f"--channels={channels}"]
    return ["pacat", f"--device={sink}", *form]


def quiet_room(rng: np.random.Generator) -> np.ndarray:
    """Return a minute of a room in which nothing happens, float32 [frames]: it is never silent."""
    return 0.001 * rng.normal(size=60 * SINK_RATE_HZ).astype(np.float32)


def said(label: str, rng: np.random.Generator) -> np.ndarray:
    """Return a melody of tests/support/sounds.py and half a second of silence, float32 [frames]."""
    clip = resample(melody(label, rng).astype(np.float32), RATE, SINK_RATE_HZ)
    return np.concatenate([clip, np.zeros(SINK_RATE_HZ // 2, np.float32)])


def crash() -> np.ndarray:
    """Return a falling tone and silence, float64. It resembles no melody of tests/support/sounds.py; noise does."""
    time_s = np.arange(SINK_RATE_HZ // 2) / SINK_RATE_HZ
    tone = 0.4 * np.hanning(len(time_s)) * np.sin(2 * np.pi * (2_000 * time_s - 1_800 * time_s**2))
    return np.concatenate([tone, np.zeros(SINK_RATE_HZ)])


class SoundServer:
    """A server in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._server: subprocess.Popen[bytes] | None = None
        self._players: list[subprocess.Popen[bytes]] = []
        self.environment = {
            "PULSE_SERVER": f"unix:{folder}/native",
            "PULSE_RUNTIME_PATH": str(folder),
            "PULSE_STATE_PATH": str(folder),
            "PULSE_COOKIE": f"{folder}/cookie",
            "XDG_RUNTIME_DIR": str(folder),
            "ALSA_CONFIG_PATH": f"{folder}/alsa.conf",
        }
        (folder / "alsa.conf").write_text(ALSA.format(server=self.environment["PULSE_SERVER"]))

    def start(self) -> None:
        """Start the server and wait until it answers."""
        (self.folder / "native").unlink(missing_ok=True)
        command = ["pulseaudio", "-n", "--daemonize=no", "--use-pid-file=no", "--exit-idle-time=-1"]
        modules = [f"module-native-protocol-unix auth-anonymous=1 socket={self.folder}/native"]
        modules += [f"module-null-sink sink_name={sink} rate={SINK_RATE_HZ}" for sink in ("shelf", "cellar")]
        with (self.folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [*command, "--log-level=error", *(f"--load={module}" for module in modules)],
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        for _ in range(600):
            found = subprocess.run(["pactl", "list", "short", "sinks"], capture_output=True, check=False)
            if b"cellar" in found.stdout:
                return
            time.sleep(0.1)
        pytest.fail(f"pulseaudio does not answer: {(self.folder / 'log').read_text()}")

    def kill(self) -> None:
        """Kill the server without warning, as if the sound card were pulled."""
        self.silence()
        assert self._server is not None
        self._server.kill()
        self._server.wait()

    def play(self, samples: np.ndarray, sink: str = "shelf") -> None:
        """Begin to play float [frames] or [frames, channels] at 48 kHz, once."""
        path = self.folder / f"played-{len(self._players)}.raw"  # an earlier one may still be read
        path.write_bytes(samples.astype("<f4").tobytes())
        with path.open("rb") as file:
            self._players.append(subprocess.Popen(_player(sink, samples), stdin=file))

    def play_on(self, samples: np.ndarray, sink: str = "shelf") -> subprocess.Popen[bytes]:
        """Begin to play the like again and again, until all is silenced or the player that is returned is killed."""
        sound = samples.astype("<f4").tobytes()
        player = subprocess.Popen(_player(sink, samples), stdin=subprocess.PIPE)
        self._players.append(player)

        def feed() -> None:
            with contextlib.suppress(OSError):  # it was ended
                while True:
                    player.stdin.write(sound)

        threading.Thread(target=feed, daemon=True).start()
        return player

    def play_until(
        self, sound: Callable[[], np.ndarray], heard: Callable[[], object], what: str, patience_s: float = 5.0
    ) -> None:
        """Play a sound until it was heard: a busy machine drops some of what it plays and records."""
        for _ in range(30):
            self.play(sound())
            ends = time.monotonic() + patience_s
            while time.monotonic() < ends:
                if heard():
                    return
                time.sleep(0.1)
        raise AssertionError(f"{what} was played 30 times and never heard")

    def silence(self) -> None:
        """End whatever is played."""
        for player in self._players:
            player.kill()
            player.wait()
        self._players.clear()


@pytest.fixture(scope="session")
def _running_sound_server(tmp_path_factory):
    if missing := missing_parts():
        pytest.skip(f"not installed: {missing}")
    server = SoundServer(tmp_path_factory.mktemp("sound"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        server.start()
        yield server
        server.kill()


@pytest.fixture
def sound_server(_running_sound_server):
    """The server, in whose environment the test runs; silent at first."""
    yield _running_sound_server
    _running_sound_server.silence()
