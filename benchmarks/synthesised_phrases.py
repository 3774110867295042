"""Phrases that share a part, said whole by every synthesiser at hand, for `benchmarks.listening --words`.

`python -m benchmarks.synthesised_phrases FOLDER` writes ``FOLDER/<phrase>/<speaker>_<take>.wav``. Speakers are voices
of espeak-ng, and those of flite and festival where they are installed. The same options and programs give the same
files. Synthesised voices are more alike than people are: these figures compare, and do not predict what people see.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.command import BenchmarkError, Command
from benchmarks.listening.material import RATE_HZ
from demo.corpus import ACCENTS, Synthesiser
from edge_client.audio.recordings import encode_wave, read_recording
from edge_client.audio.resampling import resample
from fleet_protocol.numbers.arrays import Floats

PHRASES = (
    *("lights on", "lights off", "next song", "last song", "hey marvin", "hey ma", "volume up", "volume down"),
    *("good morning", "good evening", "open the garage door", "open the front door", "close the garage door"),
    *("close the front door", "turn on the kitchen lights", "turn on the bedroom lights"),
)
_BESIDE_S, _PEAK, _NOISE_DB = 0.25, 0.3, -65.0
# Of a take beside the voice's own: pace, pitch.
_PACE, _PITCH = 0.12, 0.08

Say = Callable[[str, float, float], Floats]


def main() -> int:
    """Synthesise the phrases; return the exit status."""
    parser = Command("benchmarks.synthesised_phrases", __doc__)
    parser.add_argument("folder", type=Path, help="that gets a folder for each phrase")
    parser.add_argument("--speakers", type=int, default=8, help="of espeak-ng (%(default)s)")
    parser.add_argument("--takes", type=int, default=13, help="of each phrase by each speaker (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of voices and takes (%(default)s)")
    return parser.run(work)


def work(options: argparse.Namespace) -> None:
    """Write the recordings, all of them or none, and print who spoke. Raises BenchmarkError: the folder exists."""
    if options.folder.exists():
        raise BenchmarkError(f"{options.folder} exists already; remove it, or name another folder")
    options.folder.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory(dir=options.folder.parent) as place:
        making = Path(place) / "phrases"
        for phrase in PHRASES:
            (making / phrase).mkdir(parents=True)
        for name, say in _speakers(options.speakers, rng):
            for phrase in PHRASES:
                for take in range(options.takes):
                    spoken = say(phrase, *(1 + np.array([_PACE, _PITCH]) * rng.uniform(-1, 1, 2)))
                    path = making / phrase / f"{name}_{take}.wav"
                    path.write_bytes(encode_wave(_in_a_room(spoken, rng), RATE_HZ))
            print(name)
        making.rename(options.folder)


def _in_a_room(spoken: Floats, rng: np.random.Generator) -> Floats:
    beside = np.zeros(round(_BESIDE_S * RATE_HZ), np.float32)
    whole = np.concatenate([beside, _PEAK / np.abs(spoken).max() * spoken, beside])
    return np.asarray(whole + 10 ** (_NOISE_DB / 20) * rng.standard_normal(len(whole)), np.float32)


def _speakers(count: int, rng: np.random.Generator) -> Iterator[tuple[str, Say]]:
    """Yield so many voices of espeak-ng, and each that the other programs have here; one speaks before the next."""
    espeak = Synthesiser()
    pairs = [f"{accent}+{variant}" for accent in ACCENTS for variant in espeak.variants]
    for voice in rng.permutation(pairs)[:count]:
        espeak.use(str(voice))
        words, pitch = int(rng.integers(130, 190)), int(rng.integers(25, 75))

        def say(phrase: str, pace: float, high: float, words: int = words, pitch: int = pitch) -> Floats:
            return resample(espeak.say(phrase, round(words * pace), round(pitch * high), 50), espeak.rate_hz, RATE_HZ)

        yield f"espeak-{str(voice).replace('_', '-')}", say
    if shutil.which("flite"):
        listed = subprocess.run(["flite", "-lv"], capture_output=True, text=True, check=True).stdout
        for voice in sorted(set(listed.partition(":")[2].split()) - {"awb_time", "kal"}):
            yield f"flite-{voice}", _flite(voice)
    if shutil.which("text2wave"):
        asked = ["festival", "-b", "(print (voice.list))"]
        listed = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        for voice in sorted(set(re.findall(r"\w+", listed)) - {"nil"}):
            yield f"festival-{voice.replace('_', '-')}", _festival(voice)


def _flite(voice: str) -> Say:
    def say(phrase: str, pace: float, high: float) -> Floats:
        change = ["--setf", f"duration_stretch={1 / pace:.3f}", "--setf", f"f0_shift={high:.3f}"]
        return _said(["flite", "-voice", voice, *change, "-t", phrase, "-o"])

    return say


def _festival(voice: str) -> Say:
    def say(phrase: str, pace: float, _high: float) -> Floats:
        change = ["-eval", f"(voice_{voice})", "-eval", f"(Parameter.set 'Duration_Stretch {1 / pace:.3f})"]
        return _said(["text2wave", *change, "-o"], phrase)

    return say


def _said(command: list[str], text: str = "") -> Floats:
    """Return what a program writes into the file that is its last argument, without the silence around."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "said.wav"
        subprocess.run([*command, str(path)], input=text, text=True, capture_output=True, check=True)
        samples = read_recording(path, RATE_HZ)
    loud = np.flatnonzero(np.abs(samples) > 0.02 * np.abs(samples).max())
    return samples[loud[0] : loud[-1] + 1]


if __name__ == "__main__":
    sys.exit(main())
