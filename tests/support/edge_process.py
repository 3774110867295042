"""A whole device as a process of its own, for tests: a folder with a configuration, and the daemon on it."""

import hashlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from edge_client.storage.device_state import DeviceState
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.client.identity import Identity
from tests.support.checkout import ROOT, run_module


def wait_for(condition, seconds=180, what="the condition"):
    """Wait for what shall be; the time only bounds a hang, on a machine that is busy with other things."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"{what} did not come true in {seconds} s")


# A training process that is nice to others gets hardly any time on a machine that is busy with other tests.
BRISK = "[training]\nnice = 0\n"


def give_identity(state: Path, name: str) -> None:
    """Let a device be known by its name: what is random in its training depends on who it is."""
    digest = hashlib.sha256(name.encode()).hexdigest()
    DeviceState(state).identity.save(Identity(digest[:32], digest))


class EdgeDaemon:
    """One device; ``sections`` is the configuration after ``[device]`` and ``[model]``."""

    def __init__(self, folder: Path, bundle: Path, sections: str):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.config, self.state = folder, folder / "edge.toml", folder / "state"
        self.bundle = bundle
        self.runtime = folder / "run"
        self.runtime.mkdir(exist_ok=True)
        self.process, self.written = None, folder
        self.config.write_text(
            f'[device]\nname = "{folder.name}"\nstate = "state"\n[model]\nbundle = "{bundle}"\n{sections}'
        )

    def start(self, environment, log=None):
        """Start it; what it writes goes into a folder ``log``, by default its own."""
        self.written = log or self.folder
        out, err = (self.written / "events").open("a"), (self.written / "log").open("a")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "edge_client.cli", "run", "--config", str(self.config)],
            cwd=ROOT,
            stdout=out,
            stderr=err,
            env={**environment, "RUNTIME_DIRECTORY": str(self.runtime)},
        )
        return self

    def end(self, number=signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(120)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """End it where a test failed before it did."""
        if self.process is not None and self.process.poll() is None:
            self.end(signal.SIGKILL)

    def device_state(self) -> DeviceState:
        return DeviceState(self.state)

    def progress(self):
        """What it knows by now of sounds and rounds."""
        return self.device_state().model.load(find_bundle(str(self.bundle))).progress

    def command(self, *arguments, check=True):
        return run_module("edge_client.cli", *arguments, "--config", self.config, check=check, timeout=180)

    def status(self) -> dict:
        try:
            return json.loads((self.runtime / "status.json").read_bytes())
        except FileNotFoundError:
            return {}

    def labels(self) -> set[str]:
        """What it listens for, as its status says."""
        return set(self.status().get("model", {}).get("labels", ()))

    def count(self, folder: str) -> int:
        """Number of recordings in a folder of its state."""
        return len(list((self.state / folder).glob("*.wav")))

    def events(self) -> list[dict]:
        """What it printed so far, without a line of which the end is not there yet."""
        *lines, _ = (self.written / "events").read_text().split("\n")
        return [json.loads(line) for line in lines if line.startswith("{")]

    def log(self) -> str:
        return (self.written / "log").read_text()
