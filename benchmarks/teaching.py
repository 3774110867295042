"""Teaching: is a new sound recognised after 5, 10, 20 takes, and is what the device knew still known?

The device got eight words from the fleet (trained on 65 % of Speech Commands' test speakers) and has no clip of them.
It is then taught by the device's own code, `edge_client.learning.teaching.job`, from takes in its clip store: by many
speakers, each another one, or by one. Measured on clips that were not taught: words of half of the other speakers,
sounds from the sources that the takes came from, as an owner's own. Other words are those of `_unknown_`, and the word
of `stop` and `go` that is not taught. The room is the first halves of the background recordings; noise is judged on
their second halves.

A window counts as recognised when the label has the highest score of all outputs, those for what is no label included.
Constants of the teaching were chosen on the other half of the speakers (`--tuning`).
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.bundles import build_bundles
from benchmarks.command import ROOT, BenchmarkError, Command, data_folder, said
from edge_client.audio.recordings import read_clip, speaker_of
from edge_client.clips.store import ClipStore
from edge_client.config import load_config
from edge_client.features.augmentation import BackgroundNoise, augment
from edge_client.features.front_end import open_front_end
from edge_client.learning.sgd import Optimiser, from_slots, train_epoch
from edge_client.learning.teaching.job import teach
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.device_state import DeviceState
from edge_client.storage.saved_model import Progress
from fleet_protocol.arrays import Floats
from fleet_protocol.atomic_files import write_durably
from fleet_protocol.bundle import Manifest, read_bundle
from fleet_protocol.feature_settings import FeatureSettings
from fleet_protocol.labels import LabelMap
from fleet_protocol.messages import ClassInfo
from fleet_protocol.public_set import PublicSet
from fleet_protocol.tensors import Arrays, digest

KNOWN = ("yes", "no", "up", "down", "left", "right", "on", "off")
WORDS, SOUNDS = ("stop", "go"), ("siren", "dog_bark")
OTHERS = "_unknown_"
TAKES = (5, 10, 20)
# Takes of one speaker: of few words has anybody more in the test set.
TAKES_OF_ONE = 5
SOURCES = 6
PUBLIC_CLIPS, ROOM_CLIPS = 50, 10
EPOCHS, SETTLE_AT = 25, 18
THRESHOLD = 0.6
SEED = 0


@dataclass(frozen=True)
class Case:
    """What is taught, and what else the device has."""

    label: str  # the new sound
    takes: int  # how many
    one: bool = False  # whether all are by one speaker, or from one recording
    public_set: bool = True  # whether a public set is in the cache, as after any round
    room: bool = True  # whether `record` has heard the room


class Material:
    """Clips by label as float32 [clips, samples], their sources, and background recordings."""

    def __init__(self, data: Path, settings: FeatureSettings, *, tuning: bool = False) -> None:
        """Read the recordings, as a front end takes them; with ``tuning``, judge by the other half of the speakers."""
        self.settings = settings
        self.clips: dict[str, Floats] = {}
        self.sources: dict[str, NDArray[np.str_]] = {}
        folders = [data / "gsc_v2_test" / name for name in (*KNOWN, *WORDS, OTHERS)]
        for folder in folders + [data / "urbansound8k_subset" / name for name in SOUNDS]:
            paths = sorted(path for path in folder.glob("*") if path.suffix in (".flac", ".ogg"))
            if not paths:
                raise BenchmarkError(f"there are no recordings in {folder}; set AURICLE_DATA to the folder above it")
            self.clips[folder.name] = np.stack([read_clip(path, settings) for path in paths])
            self.sources[folder.name] = np.array([_source_of(path) for path in paths])
        self.background = BackgroundNoise.load(data / "gsc_background_noise", settings.sample_rate_hz).recordings
        people = np.unique(np.concatenate([self.sources[word] for word in (*KNOWN, *WORDS)]))
        np.random.default_rng(SEED).shuffle(people)
        self._trained_on = people[: round(0.65 * len(people))]
        self._half = 0 if tuning else 1

    def split(self, word: str) -> tuple[Floats, Floats]:
        """Return a word's clips of the speakers that are trained on, and of those that are judged by."""
        known = np.isin(self.sources[word], self._trained_on)
        return self.clips[word][known], self.clips[word][~known & self._judged_by(word)]

    def _judged_by(self, word: str) -> NDArray[np.bool_]:
        return np.array([zlib.crc32(source.encode()) % 2 == self._half for source in self.sources[word]])

    def others(self, new: str) -> Floats:
        """Return clips of words that nobody taught."""
        untaught = [self.split(word)[1] for word in WORDS if word != new]
        return np.concatenate([self.clips[OTHERS][self._judged_by(OTHERS)], *untaught])

    def takes(self, case: Case, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw takes of a new sound, and clips to test on."""
        sources, clips = self.sources[case.label], self.clips[case.label]
        if case.label in WORDS:
            pool, test = np.flatnonzero(np.isin(sources, self._trained_on)), self.split(case.label)[1]
            return clips[_drawn(sources, rng.permutation(pool), case)], test
        common = sorted(np.unique(sources), key=lambda name: -int((sources == name).sum()))[:SOURCES]
        pool = np.flatnonzero(np.isin(sources, common))
        drawn = _drawn(sources, rng.permutation(pool), case)
        return clips[drawn], clips[np.setdiff1d(pool, drawn)]

    def noise(self, count: int, rng: np.random.Generator, *, room: bool) -> Floats:
        """Draw stretches of background at several volumes: of the first halves for the room, of the second to test."""
        stretches = np.empty((count, self.settings.clip_samples), np.float32)
        for stretch in stretches:
            recording = self.background[rng.integers(len(self.background))]
            half = recording[: len(recording) // 2] if room else recording[len(recording) // 2 :]
            start = rng.integers(len(half) - len(stretch))
            stretch[:] = half[start : start + len(stretch)] * np.exp(rng.uniform(np.log(0.02), 0.0))
        return stretches


def _source_of(path: Path) -> str:
    """Return the speaker, or the recording that an UrbanSound8K clip was cut from."""
    if "_nohash_" not in path.stem:
        return path.stem.split("_")[1].split("-")[0]
    return speaker_of(path).removeprefix(path.stem.split("_")[0] + "_")  # `_unknown_` has the word before it


def _drawn(sources: NDArray[np.str_], order: NDArray[np.int64], case: Case) -> NDArray[np.int64]:
    """Return the clips of a case: the first of an order, by one source, or by as many sources as there are."""
    if case.one:
        counts = {source: int((sources[order] == source).sum()) for source in sources[order]}
        source = next(source for source in sources[order] if counts[source] >= case.takes)
        order = order[sources[order] == source]
    turn = np.array([int((sources[order[:place]] == sources[clip]).sum()) for place, clip in enumerate(order)])
    return np.asarray(order[np.argsort(turn, kind="stable")][: case.takes])


def known_words(material: Material, bundle: Path) -> Arrays:
    """Train the weights that the device got from the fleet."""
    model, rng, front_end = ModelRuntime.open(bundle), np.random.default_rng(SEED), open_front_end(material.settings)
    clips = [material.split(word)[0] for word in KNOWN]
    samples, slots = np.concatenate(clips), np.repeat(np.arange(len(KNOWN)), [len(part) for part in clips])
    noise = BackgroundNoise(tuple(material.noise(60, rng, room=True)))
    variants = [samples, *(augment(samples, material.settings.sample_rate_hz, rng, noise) for _ in range(3))]
    x = np.stack([model.normalise(front_end(variant)) for variant in variants])
    mask = _known_map(model.manifest).mask
    for epoch in range(EPOCHS):
        rows = x[rng.integers(len(x), size=len(slots)), np.arange(len(slots))]
        optimiser = Optimiser(0.02 if epoch < SETTLE_AT else 0.005)
        train_epoch(model, rows, from_slots(slots, model.manifest.capacity), mask, optimiser, rng)
    return model.get_weights()


def _known_map(manifest: Manifest) -> LabelMap:
    return LabelMap(manifest.capacity, reserved=len(manifest.background)).adopt((word, word) for word in KNOWN)


def trial(case: Case, seed: int, material: Material, bundle: Path, weights: Arrays) -> dict[str, float]:
    """Teach one device; return shares in %, and the seconds that it took."""
    rng = np.random.default_rng([seed, case.takes])
    takes, test = material.takes(case, rng)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "edge.toml"
        path.write_text(f'[device]\nname = "x"\nstate = "state"\nseed = {seed}\n[model]\nbundle = "{bundle}"\n')
        config = load_config(path)
        state = DeviceState(config.device.state)
        labels = _known_map(read_bundle(bundle).manifest)
        state.model.save(
            weights, weights, Progress(architecture=bundle.stem, label_map=labels, contributed=1, learned=1)
        )
        rate_hz = material.settings.sample_rate_hz
        store = ClipStore(config.clips_folder, config.clips, rate_hz)
        with store.changing():
            for take in takes:
                store.add(case.label, take, rate_hz)
            if case.room:
                noise = material.noise(ROOM_CLIPS, rng, room=True).ravel()
                store.add_background(noise, rate_hz, material.settings.clip_s)
        if case.public_set:
            blob = _public_set(material).pack()
            write_durably(state.blobs.path(digest(blob)), blob)
        began = time.perf_counter()
        teach(config, state)
        seconds = time.perf_counter() - began
        saved = state.model.load(bundle)
    model = ModelRuntime(saved.listening_bundle)
    return _judged(model, saved.progress.listening_labels, case.label, test, material) | {"seconds": seconds}


def _public_set(material: Material) -> PublicSet:
    clips = np.concatenate([material.split(word)[0][:PUBLIC_CLIPS] for word in KNOWN])
    labels = np.repeat(np.arange(len(KNOWN), dtype=np.int64), PUBLIC_CLIPS)
    classes = tuple(ClassInfo(word, word) for word in KNOWN)
    return PublicSet(
        material.settings, classes, open_front_end(material.settings)(clips), labels, np.zeros(len(labels), np.bool_)
    )


def _judged(
    model: ModelRuntime, labels: LabelMap, new: str | None, test: Floats, material: Material
) -> dict[str, float]:
    """Return shares in %: known words still right, the new sound recognised, and what else is taken for a sound."""
    front_end, mask = open_front_end(material.settings), labels.listening_mask
    tests = [material.split(word)[1] for word in KNOWN]
    slots = np.repeat([labels.slot_of(word) for word in KNOWN], [len(part) for part in tests])
    known = model.predict(model.normalise(front_end(np.concatenate(tests))), mask).argmax(axis=1)
    noise = front_end(material.noise(300, np.random.default_rng(99), room=False))
    of_noise = model.predict(model.normalise(noise), mask)[:, : len(labels.slots)].max(axis=1)  # of any label
    shares = {"known": float((known == slots).mean()), "noise": float((of_noise > THRESHOLD).mean())}
    if new is not None:
        found = model.predict(model.normalise(front_end(test)), mask)
        shares["new"] = float((found.argmax(axis=1) == labels.slot_of(new)).mean())
        shares["mistaken"] = float((known == labels.slot_of(new)).mean())
        others = model.predict(model.normalise(front_end(material.others(new))), mask)
        shares["others"] = float((others.argmax(axis=1) == labels.slot_of(new)).mean())
    return {name: 100 * share for name, share in shares.items()}


def _cases() -> list[Case]:
    cases = [Case(label, takes) for label in (*WORDS, *SOUNDS) for takes in TAKES]
    cases += [Case(label, TAKES_OF_ONE, one=True) for label in (*WORDS, "siren")]
    return [
        *cases,
        Case("siren", 10, room=False),
        Case("siren", 10, public_set=False),
        Case("stop", 10, public_set=False),
    ]


def _build(front_end: str) -> Path:
    """Build the bundle on a front end, given by its name or as a file; return its path."""
    folder = ROOT / "build" / "teaching" / Path(front_end).stem
    build_bundles(folder, ["linear"], "--features", front_end)
    return folder / "linear.auricle"


def main() -> int:
    """Run the benchmark."""
    parser = Command("benchmarks.teaching", __doc__)
    parser.add_argument("--trials", type=int, default=5, help="of each case, with other takes (5)")
    parser.add_argument(
        "--front-end",
        default="base",
        metavar="NAME|FILE",
        help="a pretrained one that ships, or a FILE.frontend (base)",
    )
    parser.add_argument("--tuning", action="store_true", help="judge by the speakers on which constants are chosen")
    return parser.run(work)


def work(options: argparse.Namespace) -> dict[str, object]:
    """Print a line for each case; return the figures."""
    bundle = _build(options.front_end)
    material = Material(data_folder(), read_bundle(bundle).manifest.feature_settings, tuning=options.tuning)
    weights = known_words(material, bundle)
    model = ModelRuntime(dataclasses.replace(read_bundle(bundle), weights=weights))
    nothing = np.zeros((0, material.settings.clip_samples), np.float32)
    labels = dataclasses.replace(_known_map(model.manifest), reserved=0)  # the fleet does not train what is no label
    before = _judged(model, labels, None, nothing, material)
    said({"before": options.front_end, **before})
    first = SEED + (1_000 if options.tuning else 0)
    rows = []
    for case in _cases():
        results = [trial(case, first + seed, material, bundle, weights) for seed in range(options.trials)]
        mean = {name: float(np.mean([result[name] for result in results])) for name in results[0]}
        speakers = 1 if case.one else case.takes if case.label in WORDS else SOURCES
        rows.append(said({"front_end": options.front_end} | dataclasses.asdict(case) | {"speakers": speakers} | mean))
    return {"front_end": options.front_end, "before": before, "cases": rows}


if __name__ == "__main__":
    sys.exit(main())
