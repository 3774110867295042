"""What liars in a fleet of ten do to the others: `python -m benchmarks.liars [--json]`.

A real server's core and real devices' training, in one process: rounds of `prototypes` on the bundle `words`. Two
honest owners teach `go`, later two others `left`. Of ten devices one or three lie, in one of four ways. Two honest
devices, of other owners, then hear a stream of words; each figure is a mean over both and the seeds.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from aggregator_server.fleet.devices import enrol
from aggregator_server.rounds.devices.uploads import check_update, note_update
from aggregator_server.rounds.devices.work import acknowledge, next_work
from aggregator_server.rounds.lifecycle import advance, open_round
from aggregator_server.rounds.publishing import publish_public_set
from aggregator_server.schemas import RoundRequest
from aggregator_server.store import Store
from benchmarks.command import Command, recordings, said
from benchmarks.listening.material import RATE_HZ, Clip, Half, Stream, make_stream, recordings_in
from benchmarks.listening.measurement import averaged, decisions
from edge_client.audio.recordings import read_recording, speaker_of
from edge_client.clips.public_set import build_public_set
from edge_client.config import Config, load_config
from edge_client.daemon.listening_loop import load_listening
from edge_client.detection.detector import Detector, Loaded
from edge_client.detection.pace import pace_of
from edge_client.detection.scores import Scorer
from edge_client.detection.thresholds import threshold_of
from edge_client.learning.worker import run
from edge_client.storage.checked_files import read_checked, write_checked
from edge_client.storage.device_state import DeviceState
from fleet_protocol.arrays import Floats
from fleet_protocol.bundle import read_bundle
from fleet_protocol.messages import Enrolment, Learned, Work
from fleet_protocol.ready_bundles import find_bundle
from fleet_protocol.tensors import pack, unpack

BUNDLE, WORDS, DEVICES, TAKES = "words", ("yes", "no", "up", "down"), 10, 8
PLANTED, BROAD = ("stop", "on"), (("stop", "right"), ("off", "on"), ("stop", "off"))
WAYS = ("none", "plant", "broad", "fill", "vote")
_ROUNDS, _JUDGED, _EACH, _OTHERS = 3, (2, 3), 20, 60
_CONFIG = """[device]
state = "state"
name = "{name}"
[model]
bundle = "{bundle}"
[server]
url = "http://127.0.0.1:1"
[recordings]
folder = "clips"
[training]
teach_epochs = 20
"""


@dataclasses.dataclass(frozen=True)
class Heard:
    """A stream as the front end hears it: embeddings float32 [windows, frames, numbers], zeros where it is quiet."""

    stream: Stream
    features: Floats
    at_s: np.ndarray[Any, np.dtype[np.float64]]
    quiet: np.ndarray[Any, np.dtype[np.bool_]]


class Speakers:
    """Words by three groups of speakers: of the public set, of devices, of the stream."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        words = (*WORDS, "go", "left", "right", "stop", "on", "off")
        names = sorted({speaker_of(path) for word in words for path in recordings_in(folder / word)})
        order = np.random.default_rng(5).permutation(len(names))
        self._group = {names[i]: min(2, int(3 * place / len(names))) for place, i in enumerate(order)}

    def clips(self, word: str, group: int) -> list[Path]:
        """Return a word's clips by a group of speakers, the same few each time: to embed one takes its time."""
        found = [path for path in recordings_in(self.folder / word) if self._group.get(speaker_of(path)) == group]
        return found[: 3 * TAKES]

    def others(self) -> dict[str, list[Path]]:
        """Return clips of words that are no command, by word."""
        found: dict[str, list[Path]] = {}
        for path in recordings_in(self.folder / "_unknown_"):
            found.setdefault(path.name.partition("_")[0], []).append(path)
        return {word: paths for word, paths in found.items() if len(paths) >= 6}


class Device:
    """A device in a folder, whose training runs in this process."""

    def __init__(self, folder: Path, cache: Path, number: int, server: Store) -> None:
        self.folder, self.id, self.clips, self.cache = folder, f"{number + 1:032x}", folder / "clips", cache
        self.number, self.seed = number, 0
        self.clips.mkdir(parents=True)
        (folder / "edge.toml").write_text(_CONFIG.format(name=folder.name, bundle=BUNDLE))
        self.config: Config = load_config(folder / "edge.toml")
        self.state = DeviceState(self.config.device.state)
        identity = self.state.identity.load()
        self.state.identity.save(dataclasses.replace(identity, device_id=self.id))
        settings = read_bundle(self.config.bundle).manifest.feature_settings.to_json()
        enrol(server, Enrolment(device_id=self.id, secret=f"{number:032d}", name=folder.name, architecture="mlp",
                                features=settings), now=0.0)  # fmt: skip

    def some(self, speakers: Speakers, word: str) -> list[Path]:
        """Return this device's clips of a word, the same whoever else lies."""
        rng = np.random.default_rng([self.seed, self.number, *word.encode()])
        clips = speakers.clips(word, 1)
        return [clips[index] for index in rng.permutation(len(clips))[:TAKES]]

    def teach(self, label: str, paths: Sequence[Path]) -> None:
        """Give the device clips of a label."""
        (self.clips / label).mkdir(exist_ok=True)
        for path in paths:
            (self.clips / label / f"{path.parent.name}-{path.name}").symlink_to(path.resolve())

    def work(self, server: Store, work: Work) -> bytes:
        """Do what the server asks for; return the file in the outbox."""
        for sha256 in filter(None, (work.public_set, work.prototypes)):
            if not self.state.blobs.has(sha256):
                self.state.blobs.folder.mkdir(exist_ok=True)
                self.state.blobs.path(sha256).write_bytes(bytes(server.blobs.read(sha256)))
        kept, document = unpack(read_checked(self.cache)) if self.cache.exists() else ({}, {})
        if kept:
            write_checked(self.state.embeddings_path, read_checked(self.cache))
        run(self.config, work)
        used, document = unpack(read_checked(self.state.embeddings_path))
        if used.keys() - kept.keys():
            write_checked(self.cache, pack(kept | used, document))
        outbox = self.state.outbox
        path = outbox.update_path if work.kind == "contribute" else outbox.learned_path
        data = outbox.read(path(work.round_id))
        assert data is not None
        return data


def play(speakers: Speakers, way: str, liars: int, seed: int, folder: Path, cache: Path) -> list[Device]:
    """Play three rounds; return the two devices that are judged."""
    server = Store(folder / "server")
    with server.blobs.receive() as incoming:
        incoming.write(public(speakers))
        publish_public_set(server, incoming)
    devices = [Device(folder / f"d{n}", cache, n, server) for n in range(DEVICES)]
    honest, bad = devices[: DEVICES - liars], devices[DEVICES - liars :]

    for number, device in enumerate(devices):
        device.seed = seed
        for word in (WORDS[number % 4], WORDS[(number + 1) % 4]):
            device.teach(word, device.some(speakers, word))
    for device in honest[:2]:
        device.teach("ours", device.some(speakers, "go"))
    for round_number in range(_ROUNDS):
        if round_number == 1:
            for device in honest[4:6]:
                device.teach("later", device.some(speakers, "left"))
        for device in bad:
            lie(device, way, round_number, speakers)
        _round(server, devices, [devices[n] for n in _JUDGED], float(1000 * (round_number + 1)))
    server.close()
    return [devices[n] for n in _JUDGED]


def lie(device: Device, way: str, now: int, speakers: Speakers) -> None:
    """Let a liar do as he does: plant words, broad classes, many classes, or votes for a class that it is not."""
    if way == "plant" and now == 0:
        for word in PLANTED:
            device.teach(f"zz {word}", device.some(speakers, word))
    if way == "broad" and now == 0:
        for number, words in enumerate(BROAD):
            device.teach(f"zz {number}", [path for word in words for path in device.some(speakers, word)])
    if way == "fill":
        for word in list(speakers.others())[8 * now : 8 * now + 8]:
            device.teach(f"zz {word}", speakers.others()[word][:6])
    if way == "vote" and now == 1:  # it names the class as the fleet does, and sends another word
        device.teach("sound-4", device.some(speakers, "stop"))


def _round(server: Store, devices: Sequence[Device], judged: Sequence[Device], now: float) -> None:
    settings: Mapping[str, Any] = {"strategy": "prototypes", "quorum": 1.0, "selection": {"seen_within_s": 0}}
    round_id = open_round(server, RoundRequest(**settings), now)
    for device in devices:
        while (work := next_work(server, device.id, now)) is not None and work.kind == "learn":
            acknowledge(server, device.id, Learned(work.round_id))
        assert work is not None
        with server.blobs.receive() as incoming:
            incoming.write(device.work(server, work))
            update = check_update(server, round_id, device.id, incoming, now)
            assert update is not None
            note_update(server, update, incoming.keep(), now)
    advance(server, now)
    for device in judged:
        found = next_work(server, device.id, now)
        assert found is not None
        device.work(server, found)


@lru_cache(maxsize=1)
def public(speakers: Speakers) -> bytes:
    """Return the fleet's public set: recordings of each of its words."""
    settings = read_bundle(find_bundle(BUNDLE)).manifest.feature_settings
    with tempfile.TemporaryDirectory() as folder:
        for word in WORDS:
            (Path(folder) / word).mkdir()
            for path in speakers.clips(word, 0):
                (Path(folder) / word / path.name).symlink_to(path.resolve())
        return build_public_set(Path(folder), settings, list(WORDS), 3 * TAKES).pack()


def make_heard(speakers: Speakers) -> Heard:
    """Make the stream, and have the front end hear it once for all devices."""
    said_words = {"P": PLANTED, "H": ("go", "left"), "O": WORDS}
    clips = [
        Clip(f"{kind} {word}", path)
        for kind, words in said_words.items()
        for word in words
        for path in speakers.clips(word, 2)[:_EACH]
    ]
    others = [path for paths in speakers.others().values() for path in paths[6:]]
    order = np.random.default_rng(3).permutation(len(others))[:_OTHERS]
    clips += [Clip(None, others[index]) for index in order]
    noises = [read_recording(path, RATE_HZ) for path in recordings_in(recordings("gsc_background_noise"))]
    half = Half(tuple(clips), tuple(noise[len(noise) // 2 :] for noise in noises))
    stream = make_stream(half, 20.0, 1e9, np.random.default_rng(3))
    found: list[Floats | None] = []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "edge.toml").write_text(_CONFIG.format(name="ear", bundle=BUNDLE))
        config = load_config(Path(folder) / "edge.toml")
        two = load_listening(config).label_map.add("a").add("b")
        loaded = dataclasses.replace(load_listening(config), label_map=two, look=lambda row, *_: found.append(row))
        detector = Detector(loaded, config.detector)
        for start in range(0, len(stream.samples), RATE_HZ):
            detector.push(stream.samples[start : start + RATE_HZ])
    shape = next(row.shape for row in found if row is not None)
    first = read_bundle(find_bundle(BUNDLE)).manifest.feature_settings.clip_samples
    hops = first + detector.hop_samples * np.arange(len(found))
    rows = np.stack([np.zeros(shape, np.float32) if row is None else row for row in found])
    return Heard(stream, rows, hops / RATE_HZ, np.array([row is None for row in found]))


def judge(device: Device, heard: Heard) -> dict[str, float]:
    """Return what a device hears of a stream, and how many slots the liars' classes have."""
    loaded: Loaded = load_listening(device.config)
    label_map, config = loaded.label_map, device.config.detector
    scores = Scorer(loaded.model, label_map, loaded.prototypes, loaded.known)(heard.features)
    scores[heard.quiet] = 0.0
    pace = pace_of(config, loaded.model.manifest.feature_settings)
    limits = np.array([threshold_of(name, config, loaded.tails) for name in label_map.names], np.float32)
    means = averaged(scores, heard.at_s, pace.average_s)
    events = decisions(means, heard.at_s, label_map.names, limits, config.refractory_s)
    words = heard.stream.words
    taken: dict[str, dict[str, int]] = {}  # by label, how often which word was heard as it
    for event in events:
        said_word = next((w for w in words if 0 <= event.at_s - w.begin_s <= 2.25), None)
        name = "" if said_word is None else said_word.label or "other"
        taken.setdefault(event.label, {}).setdefault(name, 0)
        taken[event.label][name] += 1
    hours, own = float(heard.at_s[-1]) / 3600, set(WORDS)
    of_fleet = {label: counts for label, counts in taken.items() if label not in own}
    # Which word a class of the fleet is: the one that it is heard in most often, of those that somebody taught.
    honest = {word: max((c.get(f"H {word}", 0) for c in of_fleet.values()), default=0) for word in ("go", "left")}
    planted = sum(counts.get(f"P {word}", 0) for counts in of_fleet.values() for word in PLANTED)
    wrong = sum(sum(counts.values()) for counts in taken.values())
    wrong -= sum(counts.get(f"O {label}", 0) for label, counts in taken.items() if label in own)
    wrong -= sum(honest.values()) + planted
    said_planted, said_honest = len(PLANTED) * _EACH, 2 * _EACH
    return {
        "false alarms/h": wrong / hours,
        "planted heard %": 100 * planted / said_planted,
        "honest heard %": 100 * sum(honest.values()) / said_honest,
        "slots of others": float(len(set(label_map.labels) - own)),
    }


def work(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Play every way of lying by one and by three of ten devices."""
    speakers, found = Speakers(recordings("gsc_v2_test")), []
    options.cache.mkdir(parents=True, exist_ok=True)
    heard = make_heard(speakers)
    for way in options.ways:
        for liars in (0,) if way == "none" else options.liars:
            rows = []
            for seed in range(options.seeds):
                with tempfile.TemporaryDirectory() as folder:
                    cache = options.cache / "embeddings.safetensors"
                    judged = play(speakers, way, liars, seed, Path(folder), cache)
                    rows += [judge(device, heard) for device in judged]
            means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
            found.append(said({"way": way, "liars": liars, **means}))
    return found


def main() -> int:
    """Run the benchmark; return the exit status."""
    command = Command("benchmarks.liars", __doc__)
    command.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS, help="how they lie (all)")
    command.add_argument("--liars", nargs="+", type=int, default=[1, 3], metavar="N", help="of ten devices (1 3)")
    command.add_argument("--seeds", type=int, default=5, metavar="N", help="fleets of each kind (5)")
    command.add_argument("--cache", type=Path, default=Path("build/liars"), help="keeps embeddings (build/liars)")
    return command.run(work)


if __name__ == "__main__":
    sys.exit(main())
