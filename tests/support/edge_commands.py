"""The commands of ``auricle-edge`` in the test's own process, and at a terminal."""

import functools
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from edge_client.cli import main
from edge_client.storage.device_state import DeviceState
from tests.support.checkout import ROOT


class EdgeCommands:
    """A device's folder, with a configuration where a bundle is given; calling it runs a command on that."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture, bundle: Path | None = None):
        self.folder, self.config = folder, folder / "edge.toml"
        self._capsys = capsys
        if bundle is not None:
            self.config.write_text(f'[device]\nname = "x"\nstate = "state"\n[model]\nbundle = "{bundle}"\n')

    @functools.cached_property
    def state(self) -> DeviceState:
        """The device's state; its folder is made by the first who asks for it."""
        return DeviceState(self.folder / "state")

    def __call__(self, *arguments: object, status: int = 0) -> str:
        """Return what a command prints, or how it explains that it failed."""
        out, errors = self.ended(status, *arguments)
        return out if status == 0 else errors

    def ended(self, status: int, *arguments: object) -> tuple[str, str]:
        """Return what a command writes to its standard output and its standard error; it must end with a status."""
        found, out, errors = self.tried(*arguments)
        assert found == status, out + errors
        return out, errors

    def tried(self, *arguments: object) -> tuple[int, str, str]:
        """Run a command; return its status and what it wrote."""
        self._capsys.readouterr()
        status = main([*map(str, arguments), "--config", str(self.config)])
        return status, *self._capsys.readouterr()

    def answered(self, answer: bytes, *arguments: str) -> tuple[int, str, str]:
        """Run a command at a terminal, and answer its questions; return its status and what it wrote."""
        terminal, other = pty.openpty()
        child = self.start(*arguments, stdin=other)
        os.write(terminal, answer)
        out, errors = child.communicate(timeout=180)
        os.close(terminal)
        os.close(other)
        return child.returncode, out, errors

    def start(self, *arguments: str, stdin: int | None = None) -> subprocess.Popen[str]:
        """Start a command as a program of its own."""
        command = [sys.executable, "-m", "edge_client.cli", *arguments, "--config", str(self.config)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=ROOT, stdin=stdin, stdout=pipe, stderr=pipe, text=True)

    def count(self, label: str) -> int:
        """Number of the owner's clips of a label."""
        return len(list((self.state.folder / "clips" / label).glob("*.wav")))
