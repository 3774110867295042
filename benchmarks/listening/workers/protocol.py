"""How a worker is talked to: sound in by standard input, scores out by standard output.

A request is the number of samples, uint32, and so many 16-bit samples at 16 kHz, which follow those before; 0 samples
begin a new stream. The answer is the number of hops, uint32, and as many rows of float32 scores. Before all requests
the worker writes one line of JSON: its labels, its hop, and the threshold that its package suggests.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import wave
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

RATE_HZ = 16_000


class Listener(Protocol):
    """A package's detector."""

    labels: tuple[str, ...]  # What it listens for
    hop_samples: int  # Samples from one row of scores to the next
    threshold: float  # Score from which the package's documentation or code suggests to report a label

    def reset(self) -> None:
        """Begin a new stream."""

    def scores(self, samples: NDArray[np.int16]) -> NDArray[np.float32]:
        """Return the scores of whole hops that follow those before, float32 [hops, labels]; higher is likelier."""


def serve(listener: Listener, source: BinaryIO, sink: BinaryIO) -> None:
    """Answer requests until there are no more; samples that fill no whole hop wait for the next request."""
    about = {"labels": listener.labels, "hop_s": listener.hop_samples / RATE_HZ, "threshold": listener.threshold}
    sink.write(json.dumps(about).encode() + b"\n")
    sink.flush()
    waiting = np.zeros(0, np.int16)
    while header := source.read(4):
        (count,) = struct.unpack("<I", header)
        waiting = np.concatenate([waiting, np.frombuffer(source.read(2 * count), "<i2")]) if count else waiting[:0]
        if not count:
            listener.reset()
        whole = len(waiting) // listener.hop_samples * listener.hop_samples
        rows = listener.scores(waiting[:whole]) if whole else np.zeros((0, len(listener.labels)), np.float32)
        waiting = waiting[whole:]
        sink.write(struct.pack("<I", len(rows)) + rows.astype("<f4").tobytes())
        sink.flush()


def clips(folder: Path) -> dict[str, list[NDArray[np.int16]]]:
    """Read ``<label>/*.wav`` of 16-bit samples."""
    found: dict[str, list[NDArray[np.int16]]] = {}
    for path in sorted(folder.glob("*/*.wav")):
        with wave.open(str(path), "rb") as file:
            found.setdefault(path.parent.name, []).append(np.frombuffer(file.readframes(file.getnframes()), "<i2"))
    return found


def run(make: Callable[[Path], Listener]) -> None:
    """Make the detector of the folder on the command line, and serve it.

    Standard output is for the answers alone; what a package prints goes to standard error.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(make(Path(sys.argv[1])), sys.stdin.buffer, answers)
