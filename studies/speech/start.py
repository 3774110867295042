"""The start of the speech recognition fleets: a network that was trained centrally on other speakers' phrases.

As published, a start comes from other people's speech (THCHS30 and ST-CMDS there). TensorFlow trains it, in a process
of its own; the bundle is kept in a folder, for the runs of every method that begin with it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bundles import ROOT, BenchmarkError
from studies.code import code_of

_PROCESS = "studies.speech.pretraining"


@dataclass(frozen=True)
class Pretraining:
    """How the start is trained.

    Attributes:
        speakers: how many.
        each: phrases of a speaker in a pass; they are made anew for every pass, disguised and at other speeds.
        aligned: passes with each letter at its place in its word, before CTC takes over.
        passes: of CTC by Adam.
        rate: Adam's step size; it falls to nothing over these passes.
        settled: passes of CTC after them by momentum SGD in the devices' batches. What Adam finds is so steep that the
            devices' first steps would lose it.
        settled_rate: step size of these.
    """

    speakers: int = 800
    each: int = 2
    aligned: int = 8
    passes: int = 40
    rate: float = 0.004
    settled: int = 3
    settled_rate: float = 0.0003


def started(bundle: Path, archive: Path, how: Pretraining, folder: Path) -> Path:
    """Return a bundle with the start's weights; it is trained where the folder does not have it yet.

    Args:
        bundle: the untrained network.
        archive: of the log-mel pictures.
        how: it is trained.
        folder: holds the trained bundles.

    Raises:
        BenchmarkError: with what the process said.
    """
    settings = json.dumps(dataclasses.asdict(how))
    digest = hashlib.sha256(f"{code_of(_PROCESS)} {settings}".encode() + bundle.read_bytes()).hexdigest()[:32]
    trained = folder / f"{digest}.auricle"
    if not trained.is_file():
        command = [sys.executable, "-m", _PROCESS, str(bundle), str(archive), str(trained), settings]
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        result = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **quiet}, capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise BenchmarkError(f"{' '.join(command)} failed:\n{result.stderr[-4000:]}")
    return trained
