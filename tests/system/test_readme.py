"""Every block of commands in README.md, typed from top to bottom in a fresh environment.

From nothing to what a device hears of sample sounds, then of an own microphone, then to a fleet of two. The first two
are typed on the newest other Python of this machine, too. docs/start.md shows one of them again.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from edge_client.audio.resampling import resample
from tests.support.checkout import ROOT
from tests.support.desk import Desk, free_port, next_commands
from tests.support.edge_process import wait_for
from tests.support.packages import copy_sources, other_pythons, service_wheels, version, wheels_for
from tests.support.sound_server import SINK_RATE_HZ, quiet_room
from tests.support.sounds import RATE, melody, write_two_homes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

OWN = Path(sys.executable)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Lines that are left running, each in a terminal of its own, and the words by which they say that they are ready.
RUNNING = {
    "auricle-edge run": "listening for",
    "auricle-edge ui": "http://",
    "auricle-aggregator run": '"url"',
    "auricle-edge join": "enrolled as",
}
# Lines that show something by themselves until Ctrl-C, and the words by which they have shown it.
SHOWN = {"auricle-edge try": "heard ", "auricle-aggregator try": "reached every device"}


class Reader(Desk):
    """Somebody who types what a page shows. Only what no page can know is added: a free port, which microphone."""

    def __init__(self, folder: Path, environment: dict[str, str], bin_: Path, wheels: Path):
        super().__init__(folder, lambda name: [str(bin_ / name)], environment)
        self.port, self.link, self.bin, self.wheels = free_port(), "", bin_, wheels
        self.said: dict[str, str] = {}

    def read(self, block: str) -> None:
        for line in block.splitlines():
            command, _, remark = (part.strip() for part in line.partition(" #"))
            if command.startswith("make "):
                subprocess.run(["make", "--dry-run", *command.split()[1:]], cwd=ROOT, check=True, capture_output=True)
            elif command.startswith("python3 -m venv "):
                home = self._environment | {"HOME": str(self.folder)}
                own = command.replace("python3", str(self.bin / "python"), 1)
                subprocess.run(["bash", "-c", own], cwd=self.folder, env=home, check=True, capture_output=True)
            elif command.startswith("pip install "):
                self.install(command)
            elif command:
                self.enter(command, remark)

    def install(self, command: str) -> None:
        """Install from a copy of the checkout, with wheels that lie ready."""
        sources = self.folder / "checkout"
        if not sources.exists():
            copy_sources(sources)
        wanted = command.removeprefix("pip install ").strip("'")
        options = ["--quiet", "--no-index", f"--find-links={self.wheels}", "--disable-pip-version-check"]
        pip = [self.bin / "python", "-m", "pip", "install", *options, wanted]
        done = subprocess.run(pip, cwd=sources, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stderr

    def enter(self, command: str, remark: str) -> None:
        program = " ".join(command.split()[:2])
        if program in SHOWN:
            self.watch(command, program)
            return
        assert ("terminal of its own" in remark) == (program in RUNNING), command
        if program in ("auricle-aggregator new", "auricle-aggregator run"):
            command += f" --port {self.port}"
        elif program == "auricle-edge init":
            command += " --microphone shelf"
        elif program == "auricle-edge ui":
            command += " --port 0"
        command = command.replace("LINK", self.link)
        if program == "auricle-edge record":
            self.leave_running(command, "record.log")
            self.wait_for("record.log", "The room has")
            # Until the page's end: what is taught here shall be heard, however long it takes to be learned.
            self.speaker.play_on(self.sound)
            assert self._running.pop().wait(240) == 0, (self.folder / "record.log").read_text()
        elif program not in RUNNING:
            done = self.type(command)
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
            self.said[program] = done.stdout
            self.link = (re.findall(r"join (\S+)", done.stdout) or [self.link])[0]
        else:
            for owner in ("kitchen", "hall") if "for each device" in remark else ("kitchen",):
                log = f"{len(list(self.folder.glob('*.log')))}.log"
                self.leave_running(command.replace("kitchen", owner), log)
                self.wait_for(log, RUNNING[program])

    def watch(self, command: str, program: str) -> None:
        """Start what shows something by itself, wait until it has, and end it by Ctrl-C."""
        log, begun = f"{program.replace(' ', '-')}.log", time.monotonic()
        process = self.leave_running(f"{command} --no-browser", log)
        self.wait_for(log, SHOWN[program])
        print(f"{program}: {SHOWN[program]!r} after {time.monotonic() - begun:.0f} s")
        process.send_signal(signal.SIGINT)
        assert self._running.pop().wait(120) == 0, (self.folder / log).read_text()

    def ask(self, command: str) -> list[dict]:
        return json.loads(self.type(command).stdout)


def blocks(page: str) -> list[str]:
    found = BLOCK.findall((ROOT / page).read_text())
    assert found
    assert {language for language, _ in found} == {"sh"}, "another block than one of commands"
    return [text for _, text in found]


@pytest.fixture
def reader(tmp_path, python, sound_server):
    """A reader with a fresh environment of a Python, into which the page installs."""
    subprocess.run([python, "-m", "venv", tmp_path / "environment"], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AURICLE_", "PYTHON"))}
    wheels = service_wheels() if python == OWN else wheels_for(python, "edge,ui")
    found = Reader(tmp_path, environment, tmp_path / "environment" / "bin", wheels)
    write_two_homes(tmp_path)
    rng = np.random.default_rng(7)
    sound = [np.pad(melody("stop", rng), (0, RATE // 2)) + 0.001 * rng.normal(size=RATE * 3 // 2) for _ in range(20)]
    found.sound = resample(np.concatenate(sound).astype(np.float32), RATE, SINK_RATE_HZ)
    sound_server.play_on(quiet_room(rng))
    found.speaker = sound_server
    yield found
    found.close()


def installed(programs: Path) -> str:
    pip = [programs / "python", "-m", "pip", "list", "--disable-pip-version-check"]
    return subprocess.run(pip, check=True, text=True, stdout=subprocess.PIPE).stdout


def test_the_page_to_start_with_shows_the_same_commands():
    assert blocks("README.md")[3] in blocks("docs/start.md")


def require_words(said: dict[str, str]) -> None:
    """Check what the fleet's commands say: how many clips, the commands to type next, how the round went."""
    new, round_ = said["auricle-aggregator new"], said["auricle-aggregator round"]
    assert "32 clips of down, no, up, yes" in new
    run, join, start = next_commands(new)
    assert "--data fleet" in run
    assert "--data fleet" in start
    assert join.startswith("auricle-edge join http://127.0.0.1:")
    assert "round 1: prototypes, 2 devices, open" in round_
    assert "round 1 done after" in round_
    devices = {line.split()[0] for line in round_.splitlines() if " of " in line and "classes" in line}
    assert {"kitchen", "hall"} <= devices
    assert "first model" in round_  # before the round the devices had none
    assert " before " not in round_


@pytest.mark.parametrize("python", [OWN, *other_pythons()[-1:]], ids=version)
def test_every_block_of_the_page_does_what_it_says(python, reader):
    for number, block in enumerate(blocks("README.md")[: None if python == OWN else 2]):
        if number == 2:  # what docs/writing-a-strategy.md has installed from the same checkout is in nobody's way
            reader.install("pip install ./examples/own_strategy")
        reader.read(block)
    if python == OWN:
        listed = reader.ask("auricle-aggregator devices list --data fleet --json")
        assert {(info["name"], info["clips"]) for info in listed} == {("kitchen", 36), ("hall", 36)}
        (summary,) = reader.ask("auricle-aggregator rounds --data fleet --json")
        assert (summary["state"], summary["uploaded"]) == ("done", 2)
        require_words(reader.said)
    status = "auricle-edge status --json"
    labels = ["computer", "lights", "stop"]
    wait_for(lambda: sorted(reader.ask(status)["model"]["labels"]) == labels, what="the lesson")
    events = "auricle-edge events --label lights --json"
    wait_for(lambda: reader.ask(events), what="an event of the sound")
    assert not re.search("litert|tflite|tensorflow", installed(reader.bin))
