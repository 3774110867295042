"""The start of the speech recognition fleets: a network that was trained centrally on other speakers' phrases.

As published, a start comes from other people's speech (THCHS30 and ST-CMDS there). TensorFlow trains it, in a process
of its own; the bundle is kept in a folder, for the runs of every method that begin with it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from benchmarks.command import QUIET, output_of_module
from studies.run import code_of

_PROCESS = "studies.speech.pretraining"


@dataclass(frozen=True)
class Pretraining:
    """How the start is trained, and the network's size."""

    width: float = 0.35  # share of the published channels and units
    batch: int = 8  # utterances of a training step
    speakers: int = 800  # how many
    each: int = 2  # phrases of a speaker in a pass; they are made anew for every pass, disguised and at other speeds
    aligned: int = 8  # passes with each letter at its place in its word, before CTC takes over
    passes: int = 40  # of CTC by Adam
    rate: float = 0.004  # Adam's step size; it falls to nothing over these passes
    # passes of CTC after them by momentum SGD in the devices' batches. What Adam finds is so steep that the devices'
    # first steps would lose it.
    settled: int = 3
    settled_rate: float = 0.0003  # step size of these


def started(archive: Path, how: Pretraining, folder: Path) -> Path:
    """Return a bundle with the start's weights; it is trained where the folder does not have it yet."""
    settings = json.dumps(dataclasses.asdict(how))
    digest = hashlib.sha256(f"{code_of(_PROCESS)} {settings}".encode()).hexdigest()[:32]
    trained = folder / f"{digest}.auricle"
    if not trained.is_file():
        output_of_module(_PROCESS, archive, trained, settings, **QUIET)
    return trained
