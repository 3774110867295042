"""A process that records: raw 16-bit samples on its standard output, lost sound and last words on its standard error.

Recording runs in a process of its own because sound libraries hang when a USB microphone is pulled, and a process can
be killed where a thread cannot. A new one also sees the devices anew, and no lock of Python's delays it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_client.errors import AudioError
from fleet_protocol.numbers.arrays import Floats

# Seconds of sound that the pipe holds while this process is busy: 5 at 48 kHz in stereo.
_PIPE_BYTES = 1 << 20
_READ_BYTES = 1 << 16
_LAST_WORDS_BYTES = 2_000
_GRACE_S = 1.0
_STEP_S = 0.1
# arecord says `overrun!!! (at least 1.234 ms long)`.
_OVERRUN = b"overrun"
_FULL_SCALE = 32_768.0


class PcmProcess:
    """A running recorder in a process group of its own. ``overruns``: Number of times that it reported lost sound."""

    def __init__(self, name: str, command: Sequence[str], given: bytes = b"", secrets: Sequence[str] = ()) -> None:
        """Start a command, a program and its arguments. Raises AudioError if there is no such program.

        ``name`` of the recorder, for errors; ``given``: its standard input, at most a few kB; ``secrets``: what errors
        do not repeat of what it says.
        """
        self.overruns = 0
        self._name, self._secrets = name, secrets
        self._words, self._sound = b"", bytearray()
        try:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if given else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                env={**os.environ, "LC_ALL": "C"},
            )
        except OSError as error:
            raise AudioError(f"cannot run {command[0]}: {error.strerror}; is it installed?") from error
        if self._child.stdin is not None:
            with contextlib.suppress(BrokenPipeError), self._child.stdin as file:  # it ended, and says why
                file.write(given)
        self._pipes = {file.fileno(): file for file in (self._child.stdout, self._child.stderr) if file}
        self._output, self._errors = self._pipes
        with contextlib.suppress(OSError):  # the limit of an unusual system: the usual 64 KiB will do
            fcntl.fcntl(self._output, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._poll = select.poll()
        for descriptor in self._pipes:
            self._poll.register(descriptor, select.POLLIN)

    def wait(self, timeout_s: float, cancelled: threading.Event) -> None:
        """Wait until there is any output. Raises AudioError if it ended, came too late, or waiting was cancelled."""
        deadline = time.monotonic() + timeout_s
        while not self._sound:
            if time.monotonic() >= deadline:
                raise AudioError(f"{self._name} gave no sound within {timeout_s:g} s {self._last_words()}".rstrip())
            if cancelled.is_set():
                raise AudioError("closed while the microphone was being opened")
            self._fill(_STEP_S)

    def read(self, channels: int, timeout_s: float) -> NDArray[np.int16]:
        """Return int16 [frames, channels] that it recorded meanwhile, if any. Raises AudioError with its last words."""
        if len(self._sound) < 2 * channels:
            self._fill(timeout_s)
        size = len(self._sound) // (2 * channels) * 2 * channels
        frames = np.frombuffer(bytes(self._sound[:size]), "<i2").reshape(-1, channels)
        del self._sound[:size]
        return frames

    def close(self) -> None:
        """End it, by force where it does not answer."""
        for ending, grace_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, 2 * _GRACE_S)):
            if self._child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._child.pid, ending)
                # One that a driver holds cannot even be killed: leave it behind.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._child.wait(grace_s)
        for file in self._pipes.values():
            file.close()

    def _fill(self, timeout_s: float) -> None:
        for descriptor, _ in self._poll.poll(1000 * timeout_s):
            data = os.read(descriptor, _READ_BYTES)
            if descriptor == self._errors:
                self._hear_errors(data)
                if not data:
                    self._poll.unregister(self._errors)
            elif data:
                self._sound += data
            else:
                self._raise_ended()

    def _hear_errors(self, data: bytes) -> None:
        *lines, rest = (self._words + data).split(b"\n")
        last = b""
        for line in lines:
            if line.startswith(_OVERRUN):
                self.overruns += 1
            elif line.strip():
                last = line
        self._words = (last + b"\n" if last else b"") + rest[-_LAST_WORDS_BYTES:]

    def _raise_ended(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(_GRACE_S)
        os.set_blocking(self._errors, False)
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._errors, _READ_BYTES):
                self._hear_errors(data)
        status, words = self._child.poll(), self._last_words()
        # One that failed by itself has said why; of one that was killed the status says more.
        raise AudioError(
            f"{self._name}: {words}"
            if words and status and status > 0
            else f"{self._name} ended with status {status} {words}".rstrip()
        )

    def _last_words(self) -> str:
        words = last_line(self._words).removeprefix(f"{self._name}: ").removeprefix("pipe:0: ")
        for secret in self._secrets:
            words = words.replace(secret, "...")
        return words


def last_line(output: bytes) -> str:
    """Return the last line of a program's output that is not blank, in which programs say why they failed; or ""."""
    lines = output.decode(errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


# Mean square of 16-bit samples, -50 dBFS, from which channels are compared; what is left of it where they cancel out.
_LOUD, _CANCELLED = 1e4, 0.01


@dataclass
class PcmStream:
    """Sound from an opened device, of so many ``channels``, at a rate in Hz."""

    process: PcmProcess
    device: str
    rate_hz: int
    channels: int
    channel: int = 0  # the one that is heard, from 1; 0: the mean of all
    cancels: bool = False  # whether sound is lost in that mean, because channels are each other's opposite

    def __post_init__(self) -> None:
        if self.channel > self.channels:
            self.process.close()
            raise AudioError(f"{self.device} has {self.channels} channels; [microphone] channel = {self.channel}")

    def read(self, timeout_s: float) -> Floats:
        """Return what arrived meanwhile as one channel: float32 [any] in -1..1. Raises AudioError if it ended."""
        frames = self.process.read(self.channels, timeout_s)
        if self.channel:
            return frames[:, self.channel - 1].astype(np.float32) / np.float32(_FULL_SCALE)
        mixed: Floats = frames.mean(axis=1, dtype=np.float32)
        if self.channels > 1 and len(frames):
            whole = float(np.square(frames, dtype=np.float32).mean())
            if whole > _LOUD:
                self.cancels = float(np.square(mixed).mean()) < _CANCELLED * whole
        return mixed / np.float32(_FULL_SCALE)
