"""Who says what: recordings of the public set, of each device, of the liars, and of the stream that is listened to."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from benchmarks.command import recordings
from benchmarks.listening.material import RATE_HZ, Clip, Half, Word, by_speaker, make_stream, recordings_in
from benchmarks.listening.measurement import Listened, in_parts
from benchmarks.listening.one_front_end import listen_for_all
from edge_client.audio.recordings import read_recording, speaker_of
from edge_client.clips.public_set import build_public_set
from edge_client.config.sections import DetectorConfig
from edge_client.detection.detector import Loaded
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.bundle.ready_bundles import find_bundle

BUNDLE = find_bundle("words")
PUBLIC, PLANTED = ("yes", "no", "up", "down"), ("stop", "on")
OWNERS = {"left": (0, 1), "go": (4, 5), "right": (6,)}
"""By word, the devices whose owners teach it."""

LIE = "zz "
"""How liars' labels begin, and labels of the stream that somebody planted."""

WAYS = ("none", "plant", "broad", "fill", "vote")

_BROAD = (("stop", "go"), ("left", "right"), ("on", "off"))
_TAKES, _CLIPS = 8, 24  # of a word: of one device, and of a group of people
_TAKEN, _SLOTS = 6, 8  # recordings of another word, and such words a round, of a liar who fills slots
_SAID, _OTHERS, _SNR_DB = 20, 60, 20.0  # times that each word is said in the stream, other words there, and its noise


class Corpus:
    """Words by three groups of people: of the public set, of the devices, of the stream."""

    def __init__(self, folder: Path) -> None:
        """Read the names of recordings, as Speech Commands has them."""
        clips = {word: by_speaker(recordings_in(folder / word)) for word in (*PUBLIC, *OWNERS, *PLANTED, "off")}
        people = sorted({person for by in clips.values() for person in by})
        groups = np.array_split(np.random.default_rng(5).permutation(people), 3)
        self._clips = {
            (word, number): [path for person in sorted({*by} & {*group}) for path in by[person]][:_CLIPS]
            for word, by in clips.items()
            for number, group in enumerate(groups)
        }
        others: dict[str, list[Path]] = {}
        for path in recordings_in(folder / "_unknown_"):
            others.setdefault(speaker_of(path).partition("_")[0], []).append(path)
        self._others = {word: paths for word, paths in others.items() if len(paths) >= _TAKEN}

    def takes(self, word: str, seed: int, number: int) -> list[Path]:
        """Return a device's takes of a word, the same whoever else lies."""
        clips, rng = self._clips[word, 1], np.random.default_rng([seed, number, *word.encode()])
        return [clips[index] for index in rng.permutation(len(clips))[:_TAKES]]

    def lies(self, way: str, now: int, seed: int, number: int) -> dict[str, list[Path]]:
        """Return by label what a liar teaches before a round, the first is 0.

        He plants words, or classes of two words each, or many classes. Or he votes for the two classes that the fleet
        has after the first round, whose names he gives to another word.
        """
        words: dict[str, tuple[str, ...]] = {}
        if way == "fill":
            filled = [*self._others.items()][_SLOTS * now : _SLOTS * (now + 1)]
            return {LIE + word: paths[:_TAKEN] for word, paths in filled}
        if way == "plant" and now == 0:
            words = {LIE + word: (word,) for word in PLANTED}
        elif way == "broad" and now == 0:
            words = {LIE + " or ".join(several): several for several in _BROAD}
        elif way == "vote" and now == 1:
            words = {"sound-4": ("stop",), "sound-5": ("stop",)}
        return {
            label: [path for word in several for path in self.takes(word, seed, number)]
            for label, several in words.items()
        }

    def public_set(self) -> bytes:
        """Return the fleet's public set: recordings of each of its words."""
        settings = read_bundle(BUNDLE).manifest.feature_settings
        with tempfile.TemporaryDirectory() as folder:
            for word in PUBLIC:
                link(self._clips[word, 0], Path(folder, word))
            return build_public_set(Path(folder), settings, list(PUBLIC), _CLIPS).pack()

    def stream(self) -> tuple[tuple[Word, ...], Callable[[Loaded], Listened]]:
        """Return the words of a stream, and what says what a device hears of it."""
        called = {word: word for word in (*PUBLIC, *OWNERS)} | {word: LIE + word for word in PLANTED}
        clips = [Clip(label, path) for word, label in called.items() for path in self._clips[word, 2][:_SAID]]
        others, rng = [path for paths in self._others.values() for path in paths[_TAKEN:]], np.random.default_rng(3)
        clips += [Clip(None, others[index]) for index in rng.permutation(len(others))[:_OTHERS]]
        noises = [read_recording(path, RATE_HZ) for path in recordings_in(recordings("gsc_background_noise"))]
        stream = make_stream(Half(tuple(clips), tuple(noises)), _SNR_DB, 1e9, rng)
        bundle = read_bundle(BUNDLE)
        labels = LabelMap(bundle.manifest.capacity, reserved=len(bundle.manifest.background)).add("a").add("b")
        one = Loaded(ModelRuntime(bundle), labels)
        return stream.words, listen_for_all(one, in_parts(stream.samples), DetectorConfig())


def link(paths: Iterable[Path], folder: Path) -> None:
    """Put links to recordings into a folder, under names that tell words apart."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        (folder / f"{path.parent.name}-{path.name}").symlink_to(path.resolve())
