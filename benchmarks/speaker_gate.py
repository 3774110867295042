"""What `[labels.NAME] only_me` is worth: how many strangers it keeps out, and how many of the owner's words it costs.

Each owner is a person of Speech Commands' test set. A device is taught all words of which he has five takes or more, by
four takes each. It listens to his other takes and to the same words by strangers, in backgrounds at 20 and 10 dB, as
`benchmarks.listening` mixes them. Settings were chosen on one half of the people and backgrounds (`--tuning`); figures
are of the other. With ``--one-microphone`` each stranger's recordings get the owner's average spectrum: nothing is left
of the microphone, and less than there would be of the voice.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.command import BenchmarkError, Command, data_folder, said
from benchmarks.listening.front_ends import taught_device, write_wav
from benchmarks.listening.material import RATE_HZ, SETTINGS, Clip, Half, Stream, load_material, make_stream
from edge_client.audio.recordings import read_clip, speaker_of
from edge_client.audio.resampling import StreamResampler
from edge_client.config.sections import LabelConfig
from edge_client.daemon.listening_loop import Loaded, load_listening
from edge_client.detection.detector import Detector
from edge_client.detection.speaker_gate import LEAST, SpeakerGate, open_gate
from fleet_protocol.arrays import Floats
from fleet_protocol.ready_bundles import find_bundle

_SNRS_DB = (20.0, 10.0)
_TAKES, _WORDS = 4, 2  # that teach a word, and that an owner has at least
_OWN, _STRANGERS = 3, 8  # clips of each word that are listened to, at most
_WITHIN_S = 2.25  # from a word's beginning to its event
_LOST = (1, 2, 3, 5, 10)  # points of the owners' words for which the trade-off is told
_BINS, _SMOOTHED, _MOST_DB = 512, 9, 20.0


class Decision(NamedTuple):
    """What became of one word of a stream: whether its label was detected, and how like the owner it then was."""

    own: bool
    detected: bool
    likeness: float


class People:
    """The words of half of the people, by speaker."""

    def __init__(self, data: Path, seed: int, *, tuning: bool) -> None:
        folder = data / "gsc_v2_test"
        clips = sorted(folder.glob("[a-z]*/*.flac"))
        speakers = np.random.default_rng(seed).permutation(sorted({speaker_of(path) for path in clips}))
        half = set(speakers[: len(speakers) // 2] if tuning else speakers[len(speakers) // 2 :])
        self.clips: dict[str, dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
        for path in clips:
            if (speaker := speaker_of(path)) in half:
                self.clips[speaker][path.parent.name].append(path)

    def owners(self) -> list[str]:
        """Return who has enough takes of enough words."""
        return [speaker for speaker in sorted(self.clips) if len(self.taught(speaker)) >= _WORDS]

    def all_of(self, speaker: str) -> list[Path]:
        """Return all clips of somebody."""
        return [path for paths in self.clips[speaker].values() for path in paths]

    def taught(self, owner: str) -> dict[str, list[Path]]:
        """Return the words of which somebody has enough takes."""
        return {word: paths for word, paths in self.clips[owner].items() if len(paths) > _TAKES}

    def strangers(self, owner: str, word: str, rng: np.random.Generator) -> list[Path]:
        """Draw clips of a word by others."""
        found = [path for other in sorted(self.clips) if other != owner for path in self.clips[other].get(word, ())]
        return [found[row] for row in rng.permutation(len(found))[:_STRANGERS]]


def spectrum(paths: Iterable[Path]) -> Floats:
    """Return the average power spectrum of clips, smoothed, float32 [bins]."""
    frames = [read_clip(path, SETTINGS).reshape(-1, RATE_HZ // 50) * np.hanning(RATE_HZ // 50) for path in paths]
    power = np.square(np.abs(np.fft.rfft(np.concatenate(frames), _BINS))).mean(axis=0)
    return np.convolve(np.pad(power, _SMOOTHED // 2, mode="edge"), np.full(_SMOOTHED, 1 / _SMOOTHED), "valid")


def through_microphone(path: Path, own: Floats, theirs: Floats, folder: Path) -> Path:
    """Write a clip with its speaker's average spectrum turned into the owner's; return where."""
    gain_db = np.clip(10 * np.log10((own + 1e-9) / (theirs + 1e-9)), -_MOST_DB, _MOST_DB)
    whole = np.fft.rfft(read_clip(path, SETTINGS))
    gains = np.interp(np.linspace(0, 1, len(whole)), np.linspace(0, 1, len(gain_db)), 10 ** (gain_db / 20))
    samples = np.fft.irfft(whole * gains, SETTINGS.clip_samples)
    written = folder / path.parent.name / f"{path.stem}.wav"
    written.parent.mkdir(parents=True, exist_ok=True)
    write_wav(written, (0.5 * samples / max(1e-6, np.abs(samples).max())).astype(np.float32), RATE_HZ)
    return written


def listen(loaded: Loaded, gate: SpeakerGate, stream: Stream, detector_config: Any) -> list[Decision]:  # noqa: ANN401
    """Let a detector hear a stream; return what became of each word."""
    likeness: list[float] = []

    def accept(label: str, window: Floats) -> bool:
        likeness.append(gate.likeness(label, window))
        return True

    now = [0.0]
    detector = Detector(
        loaded.model, loaded.label_map, detector_config, clock=lambda: now[0], tails=loaded.tails, accepts=accept
    )
    samples = StreamResampler(RATE_HZ, detector.sample_rate_hz).push(stream.samples)
    events = []
    for start in range(0, len(samples), detector.hop_samples):
        now[0] = (start + detector.hop_samples) / detector.sample_rate_hz
        pushed = [heard.event for heard in detector.push(samples[start : start + detector.hop_samples])]
        events += [(event.time, event.label, likeness[-1]) for event in pushed if event.kind == "detected"]
    found = []
    for word in stream.words:
        near = [like for at_s, label, like in events if label == word.word and 0 < at_s - word.begin_s <= _WITHIN_S]
        found.append(Decision(word.label is not None, bool(near), near[0] if near else 0.0))
    return found


def measure_owner(
    bundle: Path, people: People, owner: str, half: Half, noise: Sequence[Floats], options: argparse.Namespace
) -> list[Decision]:
    """Teach a device, let it listen, and return what became of each word."""
    rng = np.random.default_rng([options.seed, int(owner, 16)])
    taught = people.taught(owner)
    shuffled = {word: [paths[row] for row in rng.permutation(len(paths))] for word, paths in taught.items()}
    takes = {word: paths[:_TAKES] for word, paths in shuffled.items()}
    own = [Clip(word, path) for word, paths in shuffled.items() for path in paths[_TAKES : _TAKES + _OWN]]
    others = [path for word in shuffled for path in people.strangers(owner, word, rng)]
    found = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if options.one_microphone:
            own_spectrum, folder_of = spectrum(people.all_of(owner)), folder / "heard"
            others = [
                through_microphone(path, own_spectrum, spectrum(people.all_of(speaker_of(path))), folder_of)
                for path in others
            ]
        config = taught_device(folder / "device", bundle, takes, noise)
        config = dataclasses.replace(config, labels=dict.fromkeys(takes, LabelConfig(only_me=True)))
        loaded = load_listening(config)
        gate, _ = open_gate(config, loaded.model.manifest.feature_settings.sample_rate_hz)
        assert gate is not None
        heard = dataclasses.replace(half, clips=(*own, *(Clip(None, path) for path in others)))
        for snr_db in _SNRS_DB:
            stream = make_stream(heard, snr_db, 1e9, np.random.default_rng([options.seed, int(snr_db)]))
            found += listen(loaded, gate, stream, config.detector)
    return found


def figures(found: Sequence[Decision], least: float) -> dict[str, float]:
    """Return in per cent: of the owners' words those missed without the gate, and those that it costs; of the
    strangers' words those heard without it and with it.
    """
    own, strangers = ([one for one in found if one.own is mine] for mine in (True, False))
    passed = [[one for one in side if one.detected and one.likeness >= least] for side in (own, strangers)]
    detected = [[one for one in side if one.detected] for side in (own, strangers)]
    return {
        "least": round(least, 2),
        "owner_missed": _percent(len(own) - len(detected[0]), len(own)),
        "owner_lost": _percent(len(detected[0]) - len(passed[0]), len(own)),
        "strangers_heard": _percent(len(detected[1]), len(strangers)),
        "strangers_passed": _percent(len(passed[1]), len(strangers)),
        "kept_out": _percent(len(detected[1]) - len(passed[1]), len(detected[1])),
    }


def trade_off(found: Sequence[Decision]) -> list[dict[str, float]]:
    """Return the figures where so many points of the owners' words are lost."""
    likeness = np.sort([one.likeness for one in found if one.own and one.detected])
    said_by_owners = sum(one.own for one in found)
    rows = [min(len(likeness) - 1, round(points / 100 * said_by_owners)) for points in _LOST]
    return [figures(found, float(likeness[row])) for row in rows]


def _percent(part: int, whole: int) -> float:
    return round(100 * part / max(1, whole), 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = Command("benchmarks.speaker_gate", __doc__)
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--bundles", nargs="+", default=["base", "words"], metavar="NAME", help="(base words)")
    parser.add_argument("--owners", type=int, default=1000, help="at most so many (all)")
    parser.add_argument("--one-microphone", action="store_true", help="strangers sound as through the owner's")
    parser.add_argument("--tuning", action="store_true", help="the half on which settings were chosen")
    parser.add_argument("--seed", type=int, default=0)
    return parser.run(work, arguments)


def work(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Print a line for each bundle, and for each point of its trade-off; return the figures."""
    material = load_material(options.data, options.seed)
    half = material.tuning if options.tuning else material.report
    people = People(options.data, options.seed, tuning=options.tuning)
    owners = people.owners()[: options.owners]
    if not owners:
        raise BenchmarkError(f"nobody in {options.data} has {_TAKES + 1} takes of {_WORDS} words")
    rows = []
    for name in options.bundles:
        bundle = find_bundle(name, Path())
        found = [one for owner in owners for one in measure_owner(bundle, people, owner, half, material.noise, options)]
        counted = {"owners": len(owners), "own_words": sum(one.own for one in found), "words": len(found)}
        row = {"bundle": name, **counted, **figures(found, LEAST)}
        rows.append(said(row) | {"trade_off": [said({"bundle": name} | point) for point in trade_off(found)]})
    return rows


if __name__ == "__main__":
    sys.exit(main())
