"""`python -m benchmarks.listening.alternatives`: other packages on the streams of `benchmarks.listening`.

Each package is installed by pip into an environment of its own below `build/alternatives/`, where it stays, gets the
training clips of the same words, and listens to the same streams. Its scores are decided on in the way that is kindest
to it: a label is heard where its score rises to the threshold, and no second time within two seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from benchmarks.bundles import ROOT, BenchmarkError
from benchmarks.listening.__main__ import streams_of
from benchmarks.listening.dialogue import dialogue
from benchmarks.listening.listening import Listened, in_parts
from benchmarks.listening.material import KNOWN, RATE_HZ, SETTINGS, Clip, Half, Material, load_material
from benchmarks.listening.measurement import RATES, at_most, curve
from benchmarks.listening.streams import Stream
from benchmarks.listening.training import write_wav
from edge_client.audio.recordings import read_clip
from fleet_protocol.arrays import Floats

# What pip installs for each, and whether with what it asks for: local-wake's silero-vad brings 5 GB of PyTorch that
# its detector does not use, and EfficientWord-Net's PyAudio must be compiled against PortAudio's headers.
PACKAGES = {
    "openwakeword": (["pyopen-wakeword==1.1.0", "ai-edge-litert", "numpy", "scikit-learn"], []),
    "local_wake": (["onnxruntime", "librosa", "soundfile", "numpy"], ["local-wake==0.1.2"]),
    "efficientword_net": (["onnxruntime", "numpy", "soundfile", "requests"], ["EfficientWord-Net==1.0.5"]),
}
_REFRACTORY_S = 2.0
_PART_S = 60.0
_POINTS = 60


@dataclass(frozen=True)
class Answer:
    """What a worker says of itself: its labels, and seconds between two rows of scores."""

    labels: tuple[str, ...]
    hop_s: float


class Worker:
    """A running worker; a context manager that ends it."""

    def __init__(self, python: Path, module: str, folder: Path) -> None:
        """Start it and wait until it has learned.

        Raises:
            BenchmarkError: it ended.
        """
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        command = [str(python), "-m", module, str(folder)]
        self._name = module
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        line = self._answers.readline()
        if not line:
            raise BenchmarkError(f"{module} ended with status {self._process.wait()}; its message is above")
        said = json.loads(line)
        self.about = Answer(tuple(said["labels"]), float(said["hop_s"]))

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._requests.close()
        self._process.wait()
        self._answers.close()

    def listen(self, parts: Iterable[Floats]) -> Listened:
        """Return the scores of a stream, given in parts at ``RATE_HZ``.

        Raises:
            BenchmarkError: the worker ended.
        """
        self._ask(np.zeros(0, np.float32))
        rows, samples = [], 0
        for part in parts:
            samples += len(part)
            rows += [self._ask(piece) for piece in in_parts(part, _PART_S)]
        scores = np.concatenate(rows)
        at_s = self.about.hop_s * np.arange(1, len(scores) + 1)
        return Listened(self.about.labels, (), 0, scores, at_s, _REFRACTORY_S, samples / RATE_HZ, release=1.0)

    def _ask(self, samples: Floats) -> Floats:
        pcm = (np.clip(samples, -1.0, 1.0) * 32_767).astype("<i2")
        self._requests.write(struct.pack("<I", len(pcm)) + pcm.tobytes())
        self._requests.flush()
        header = self._answers.read(4)
        if len(header) < 4:
            raise BenchmarkError(f"{self._name} ended with status {self._process.wait()}; its message is above")
        labels = len(self.about.labels)
        data = self._answers.read(4 * labels * struct.unpack("<I", header)[0])
        return np.frombuffer(data, "<f4").reshape(-1, labels)


def measure(name: str, worker: Worker, half: Half, streams: dict[float, Stream], hours: float, seed: int) -> Any:  # noqa: ANN401
    """Let a package listen, print its lines, and return its figures."""
    ratios = []
    for snr_db, stream in streams.items():
        heard = worker.listen(in_parts(stream.samples))
        points = curve(heard, stream.words, _thresholds(heard))
        at = {f"{rate:g}": at_most(points, rate) for rate in RATES}
        ratios.append({"snr_db": snr_db, "false_reject_percent_at": at, "curve": points})
        print(f"{name:<18}{snr_db:>4.0f} dB  " + "  ".join(str(value) for value in at.values()), flush=True)
    result: dict[str, Any] = {"package": name, "snr": ratios}
    if hours:
        heard = worker.listen(dialogue(half, hours, KNOWN, seed))
        keys = ("threshold", "false_accepts_per_hour")
        points = [{key: point[key] for key in keys} for point in curve(heard, (), _all_thresholds(ratios))]
        result["quiet"] = {"hours": hours, "curve": points}
    return result


def _thresholds(heard: Listened) -> list[float]:
    """Return thresholds that ever fewer windows reach."""
    best = heard.scores.max(axis=1)
    return sorted({float(value) for value in np.quantile(best, 1 - np.geomspace(1 / len(best), 0.5, _POINTS))})


def _all_thresholds(ratios: list[dict[str, Any]]) -> list[float]:
    return sorted({point["threshold"] for ratio in ratios for point in ratio["curve"]})


def environment(name: str, build: Path) -> Path:
    """Return the Python of a package's environment, which is made on the first call.

    Raises:
        BenchmarkError: with what pip said.
    """
    folder = build / name
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return python
    with_dependencies, alone = PACKAGES[name]
    commands = [
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [str(python), "-m", "pip", "install", "-q", *with_dependencies],
        *([[str(python), "-m", "pip", "install", "-q", "--no-deps", *alone]] if alone else []),
    ]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchmarkError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    (folder / "complete").touch()
    return python


def write_material(folder: Path, material: Material) -> None:
    """Write what workers train on: ``train/<label>``, ``others/<word>``, ``noise/<number>``."""
    kinds: dict[str, tuple[Clip, ...]] = {"train": material.training, "others": material.others}
    for kind, found in kinds.items():
        for clip in found:
            place = folder / kind / clip.word
            place.mkdir(parents=True, exist_ok=True)
            write_wav(place / f"{clip.path.stem}.wav", read_clip(clip.path, SETTINGS), RATE_HZ)
    for number, noise in enumerate(material.noise):
        (folder / "noise" / str(number)).mkdir(parents=True)
        write_wav(folder / "noise" / str(number) / "0.wav", noise, RATE_HZ)


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.listening.alternatives", description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("AURICLE_DATA", ROOT.parent / "shared" / "data"))
    parser.add_argument("--packages", nargs="+", default=list(PACKAGES), choices=PACKAGES)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "alternatives", help="where environments stand")
    parser.add_argument("--minutes", type=float, default=60.0, help="longest stream (60)")
    parser.add_argument("--hours", type=float, default=1.0, help="dialogue without a taught word (1)")
    parser.add_argument("--tuning", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    options = parser.parse_args()
    material = load_material(options.data, options.seed)
    half = material.tuning if options.tuning else material.report
    streams, results = streams_of(half, options.minutes, options.seed), []
    print(f"false rejects, %, at most {' and '.join(f'{rate:g}' for rate in RATES)} false accepts per hour")
    with tempfile.TemporaryDirectory() as folder:
        write_material(Path(folder), material)
        for name in options.packages:
            python = environment(name, options.build)
            with Worker(python, f"benchmarks.listening.workers.{name}", Path(folder)) as worker:
                results.append(measure(name, worker, half, streams, options.hours, options.seed))
    if options.json:
        print(json.dumps({"packages": results}))


if __name__ == "__main__":
    main()
