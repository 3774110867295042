"""How often a guess is right at what a sound is that nobody taught, and how many guesses an hour a household gets.

`--data` names any folder of recordings ``<label>/<source>_*``, such as ESC-50's. A guess is right where its word is one
of a label's: those of ESC-50 stand in this file, another label is a word itself. The device hears the loudest stretch
of each recording, alone and in recorded noise 10 dB below.

`--hours` adds households in synthesised dialogue, in which a device that was taught nothing hears the recordings.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.command import BenchmarkError, Command, data_folder, said
from benchmarks.listening.household import SNRS_DB, Household, make_stream
from benchmarks.listening.material import RATE_HZ, WORD_DB, loudness, recordings_in, rms
from edge_client.audio.recordings import loudest_stretch, read_recording
from edge_client.config import load_config
from edge_client.daemon.listening_loop import load_listening
from edge_client.detection.detector import Detector
from edge_client.detection.sound_names import MOST, Guesser
from edge_client.features.front_end import open_front_end
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle

_TEN = (
    *("dog", "cat", "crying_baby", "door_wood_knock", "glass_breaking", "clock_alarm", "siren", "vacuum_cleaner"),
    *("coughing", "toilet_flush"),
)
"""Kinds of ESC-50 that a home has."""
# Words of ESC-50's labels, where these are not words themselves; AudioSet has no class for the last three.
_WORDS = {
    "rooster": ("chicken",),
    "hen": ("chicken",),
    "insects": ("insect",),
    "sheep": ("sheep", "goat"),
    "sea_waves": ("sea",),
    "crackling_fire": ("fire",),
    "crickets": ("cricket", "insect"),
    "chirping_birds": ("birds",),
    "water_drops": ("dripping",),
    "thunderstorm": ("thunder",),
    "crying_baby": ("baby cry",),
    "sneezing": ("sneeze",),
    "coughing": ("cough",),
    "laughing": ("laughter",),
    "brushing_teeth": ("toothbrush",),
    "door_wood_knock": ("knock",),
    "mouse_click": ("clicking",),
    "keyboard_typing": ("keyboard",),
    "door_wood_creaks": ("creak", "door", "squeak"),
    "clock_alarm": ("alarm clock",),
    "clock_tick": ("clock",),
    "glass_breaking": ("glass",),
    "church_bells": ("church bell", "bell"),
    "airplane": ("aircraft",),
    "hand_saw": ("sawing",),
    **dict.fromkeys(("can_opening", "drinking_sipping", "washing_machine"), ()),
}
_NOISE_DB = 10.0


@dataclass(frozen=True)
class Guessed:
    """Guesses about recordings, each alone and in noise."""

    labels: NDArray[np.str_]  # of each recording
    noisy: NDArray[np.bool_]  # whether it was heard in noise
    right: NDArray[np.bool_]  # whether each of the likeliest words is right, [recordings, 3]
    told: NDArray[np.bool_]  # whether a guess would name each of them, [recordings, 3]


def right_words(label: str) -> tuple[str, ...]:
    """Return the words that are right of a label."""
    return _WORDS.get(label, (label.replace("_", " "),))


def hear(name: str, data: Path, rng: np.random.Generator) -> Guessed:
    """Guess at all recordings of a folder, alone and in noise. Raises BenchmarkError: nothing can be guessed."""
    manifest = read_bundle(find_bundle(name)).manifest
    settings, guesser = manifest.feature_settings, Guesser.of(manifest.feature_settings, manifest.embedding_statistics)
    noises = [read_recording(path, RATE_HZ) for path in recordings_in(data_folder() / "gsc_background_noise")]
    paths = [path for folder in sorted(data.iterdir()) for path in recordings_in(folder)]
    if guesser is None or guesser.names is None or not (noises and paths):
        raise BenchmarkError(f"{name} hears no sounds, or there are no recordings in {data} or {data_folder()}")
    front_end, shares = open_front_end(settings), []
    for path in paths:
        samples = loudest_stretch(read_recording(path, settings.sample_rate_hz), settings)
        noise = noises[rng.integers(len(noises))]
        begin = int(rng.integers(len(noise) - len(samples)))
        noise = noise[begin : begin + len(samples)]
        noise = noise / np.float32(rms(noise)) * 10 ** (-_NOISE_DB / 20)
        sound = samples / np.float32(loudness(samples, settings.sample_rate_hz))
        both = np.stack([sound, sound + noise]).astype(np.float32) * np.float32(10 ** (WORD_DB / 20))
        shares.append(guesser.shares(front_end(both).reshape(2, -1)))
    all_shares = np.concatenate(shares)
    best = np.argsort(-all_shares, axis=1, kind="stable")[:, :MOST]
    words = np.array(guesser.names.words)[best]
    labels = np.repeat([path.parent.name for path in paths], 2)
    return Guessed(
        labels,
        np.tile([False, True], len(paths)),
        np.array([np.isin(found, right_words(label)) for found, label in zip(words, labels, strict=True)]),
        np.array([np.isin(found, list(guesser.likeliest(row))) for found, row in zip(words, all_shares, strict=True)]),
    )


def rows_of(name: str, found: Guessed) -> list[dict[str, Any]]:
    """Print and return the figures, in per cent."""
    rows = []
    for kinds, chosen in (("ten", np.isin(found.labels, _TEN)), ("all", np.ones(len(found.labels), bool))):
        for noisy in (False, True):
            asked = chosen & (found.noisy == noisy)
            if not asked.any():
                continue
            given = asked & found.told.any(axis=1)

            def percent(right: NDArray[np.bool_], among: NDArray[np.bool_]) -> float:
                return round(100 * float(right[among].mean()), 1) if among.any() else 0.0

            row: dict[str, Any] = {"front_end": name, "kinds": kinds, "noise": f"{_NOISE_DB:g} dB" if noisy else "none"}
            row |= {"top_1": percent(found.right[:, 0], asked), "top_3": percent(found.right.any(axis=1), asked)}
            row |= {
                "given": percent(found.told.any(axis=1), asked),
                "given_first_right": percent(found.right[:, 0], given),
            }
            rows.append(said(row | {"given_right": percent((found.right & found.told).any(axis=1), given)}))
    return rows


def household(name: str, data: Path, hours: float, seed: int) -> list[dict[str, Any]]:
    """Print and return how many guesses an hour a device gives in a household, and how many of them are right."""
    folders = {folder.name: recordings_in(folder) for folder in sorted(data.iterdir()) if folder.is_dir()}
    noises = tuple(read_recording(path, RATE_HZ) for path in recordings_in(data_folder() / "gsc_background_noise"))
    others = [path for label, paths in folders.items() if label not in _TEN for path in paths]
    played = {label: paths for label, paths in folders.items() if label in _TEN}
    if not (others and played):
        raise BenchmarkError(f"{data} has none of {', '.join(_TEN)}, or nothing else; --hours 0 leaves households out")
    rows = []
    with tempfile.TemporaryDirectory() as place:
        config = Path(place) / "edge.toml"
        config.write_text(f'[device]\nname = "x"\nstate = "state"\n[model]\nbundle = "{name}"\n[microphone]\n')
        chosen = load_config(config)
        loaded = load_listening(chosen)
        for snr_db in SNRS_DB:
            stream, sounds = make_stream(Household(played, played, others, noises), snr_db, hours, seed)
            detector, events = Detector(loaded, chosen.detector), []
            for begin in range(0, len(stream), detector.hop_samples):
                heard = detector.push(stream[begin : begin + detector.hop_samples])
                events += [(begin / RATE_HZ, one.event.guess) for one in heard if one.event.kind == "unknown"]
            guesses = [(at_s, guess.split(", ")) for at_s, guess in events if guess]
            of_ten = [sound for sound in sounds if sound.label is not None]
            named = [
                any(
                    sound.begin_s <= at_s <= sound.end_s + 2 and {*right_words(str(sound.label))} & {*words}
                    for at_s, words in guesses
                )
                for sound in of_ten
            ]
            row: dict[str, Any] = {
                "front_end": name,
                "snr_db": snr_db,
                "unknown_per_hour": round(len(events) / hours, 1),
            }
            row |= {"guesses_per_hour": round(len(guesses) / hours, 1), "sounds_of_the_ten": len(of_ten)}
            rows.append(said(row | {"named_rightly": round(100 * float(np.mean(named)), 1) if named else 0.0}))
    return rows


def work(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Print a line for each case; return the figures."""
    rows = []
    for name in chosen.bundles:
        rows += rows_of(name, hear(name, chosen.data, np.random.default_rng(chosen.seed)))
        rows += household(name, chosen.data, chosen.hours, chosen.seed) if chosen.hours else []
    return rows


def _headline(rows: list[dict[str, Any]]) -> str:
    told = [row for row in rows if row.get("kinds") == "all"]
    parts = (f"{one['front_end']}, noise {one['noise']}: {one['top_1']}, {one['top_3']} %" for one in told)
    return f"right guesses, first and any of three: {'; '.join(parts)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = Command("benchmarks.guesses", __doc__, _headline)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="recordings <label>/<source>_*")
    parser.add_argument("--bundles", nargs="+", default=["sounds", "sounds_2s"], metavar="NAME", help="ready ones")
    parser.add_argument("--hours", type=float, default=0.0, help="of households at each ratio (default: none)")
    parser.add_argument("--seed", type=int, default=0)
    return parser.run(work, arguments)


if __name__ == "__main__":
    sys.exit(main())
