"""A person's own words: owners teach words that no network heard by a few takes, and say them among other words.

A folder `<word>/<speaker>_*` has the recordings. Each owner teaches four words by takes of his own,
and perhaps of other people. Streams have his other takes, other people's, and other words, in the benchmark's
backgrounds.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import BenchmarkError, said
from benchmarks.listening.front_ends import FrontEnd, taught_device
from benchmarks.listening.material import (
    RATE_HZ,
    Clip,
    Half,
    Stream,
    Word,
    by_speaker,
    impulse_response,
    make_stream,
    recordings_in,
)
from benchmarks.listening.measurement import THRESHOLDS, Heard, Listened, hits, in_parts
from benchmarks.listening.one_front_end import listen_for_all
from edge_client.audio.resampling import resample
from edge_client.clips.folders import rejected as rejected_folder
from edge_client.clips.store import ClipStore
from edge_client.config import Config
from edge_client.daemon.listening_loop import load_listening
from edge_client.detection.detector import Detector, Loaded
from edge_client.detection.thresholds import Tail
from edge_client.learning.teaching.job import teach
from edge_client.storage.device_state import DeviceState
from fleet_protocol.numbers.arrays import Floats

LABELS = 4
# Words of a stream: takes of the owner, of other people, and other words.
OWNER, OTHERS, OTHER_WORDS = "owner", "others", 300
_MOST = {OWNER: 10, OTHERS: 20}  # of each label
RATES = (10.0, 2.0, 0.5)
_TALK_RATES = (1.0, 0.1)
_EARLIER = 3  # of so many other words one is said earlier, where the owner says what is not a label


@dataclass(frozen=True)
class Owner:
    """One owner: what is taught, by label, and what is said in the streams."""

    takes: Mapping[str, Sequence[Path]]
    said: Sequence[Clip]


def owners(folder: Path, count: int, takes: int, teachers: int, seed: int) -> list[Owner]:
    """Draw owners and their words from recordings `<word>/<speaker>_*`.

    So many takes of each word are taught by the owner, and by each other one of the teachers. Raises BenchmarkError:
    nobody has enough takes of four words.
    """
    words = recordings_by_word(folder)
    by = {word: by_speaker(files) for word, files in words.items()}
    able = {
        speaker: [word for word in words if len(by[word].get(speaker, ())) > takes]
        for speaker in sorted({speaker for found in by.values() for speaker in found})
    }
    people = [speaker for speaker, found in able.items() if len(found) >= LABELS]
    if not people:
        raise BenchmarkError(f"nobody in {folder} has more than {takes} takes of {LABELS} words, <word>/<speaker>_*")
    found = []
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        owner = people[int(rng.integers(len(people)))]
        found.append(_owner(owner, list(rng.permutation(able[owner])[:LABELS]), by, words, takes, teachers, rng))
    return found


def _owner(
    owner: str,
    labels: Sequence[str],
    by: Mapping[str, Mapping[str, Sequence[Path]]],
    words: Mapping[str, Sequence[Path]],
    takes: int,
    teachers: int,
    rng: np.random.Generator,
) -> Owner:
    taught, clips = {}, []
    for label in labels:
        mine = shuffled(by[label][owner], rng)
        others = shuffled([speaker for speaker in by[label] if speaker != owner], rng)
        helpers, strangers = others[: teachers - 1], others[teachers - 1 :]
        taught[label] = mine[:takes] + [path for who in helpers for path in by[label][who][:takes]]
        clips += [Clip(label, path, OWNER) for path in mine[takes:][: _MOST[OWNER]]]
        theirs = shuffled([path for who in strangers for path in by[label][who]], rng)
        clips += [Clip(label, path, OTHERS) for path in theirs[: _MOST[OTHERS]]]
    rest = shuffled([path for word, files in words.items() if word not in labels for path in files], rng)
    return Owner(taught, [*clips, *(Clip(None, path) for path in rest[:OTHER_WORDS])])


def recordings_by_word(folder: Path) -> dict[str, list[Path]]:
    """Return the recordings `<word>/<speaker>_*` of a folder by word."""
    return {
        path.name: recordings_in(path)
        for path in sorted(folder.iterdir())
        if path.is_dir() and not path.name.startswith("_")
    }


def shuffled(items: Sequence[Any], rng: np.random.Generator) -> list[Any]:
    """Return items in an order that is drawn."""
    return [items[index] for index in rng.permutation(len(items))]


def measure(
    front_end: FrontEnd,
    people: Sequence[Owner],
    room: Sequence[Floats],
    backgrounds: Sequence[Floats],
    snrs_db: Sequence[float],
    seed: int,
    *,
    in_rooms: bool = False,
    talk: Callable[[float], Iterable[Floats]] | None = None,
    rejected: int = 0,
) -> list[dict[str, Any]]:
    """Teach each owner's device, let it listen at each ratio, and return the figures, one row for each ratio, in %.

    Misses are means over owners, each at the threshold, one for all labels, with at most so many false accepts an hour.
    ``in_rooms``: words are heard through a room, each owner's his own; takes are as they were recorded. ``talk``: hours
    of speech at a ratio, in parts, whose false accepts count besides. ``rejected``: so many false accepts of each label
    that its owner says are not it, before.
    """
    devices: list[Loaded] = []
    before: list[Loaded] = []
    if rejected:
        people, earlier = zip(*map(_in_two, people), strict=True)
    for number, owner in enumerate(people):
        with tempfile.TemporaryDirectory() as folder:
            config = taught_device(Path(folder), front_end.bundle, owner.takes, room)
            devices.append(load_listening(config))
            if rejected:
                before.append(devices.pop())
                stream = stream_of(earlier[number], number, backgrounds, max(snrs_db), seed + 1, in_rooms=in_rooms)
                _reject(before[-1], config, stream, rejected)
                teach(config, DeviceState(config.device.state))
                devices.append(load_listening(config))
    rows = []
    for snr_db in snrs_db:
        in_talk = None if talk is None else listen_for_all(devices[0], talk(snr_db), config.detector)
        found, found_before = [], []
        for number, (owner, loaded) in enumerate(zip(people, devices, strict=True)):
            stream = stream_of(owner, number, backgrounds, snr_db, seed, in_rooms=in_rooms)
            heard_by = listen_for_all(loaded, in_parts(stream.samples), config.detector)
            listened = heard_by(loaded)
            row = figures_of_own(listened, loaded.tails, stream.words)
            found.append(row if in_talk is None else row | {"talk": beside(in_talk(loaded), listened, stream.words)})
            if rejected:
                then = before[number]
                found_before.append(figures_of_own(heard_by(then), then.tails, stream.words))
        row = {"front_end": front_end.name, "snr_db": snr_db} | mean(found)
        row |= {"before": mean(found_before)} if rejected else {}
        said(_flat(row))
        rows.append(row)
    return rows


def _flat(row: Mapping[str, Any], name: str = "") -> dict[str, Any]:
    """Return all figures of a row, also of rows in it, by names that say where they stand."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        found |= _flat(value, f"{name}{key} ") if isinstance(value, Mapping) else {name + key: value}
    return found


def _in_two(owner: Owner) -> tuple[Owner, Owner]:
    """Return an owner without the other words that are said earlier, and with these alone."""
    earlier = [clip for clip in owner.said[::_EARLIER] if clip.label is None]
    later = [clip for number, clip in enumerate(owner.said) if clip.label or number % _EARLIER]
    return replace(owner, said=later), replace(owner, said=earlier)


def _reject(loaded: Loaded, config: Config, stream: Stream, most: int) -> None:
    """Keep the sounds of a stream that a device takes for a label, at most so many of each, as what is not it."""
    detector = Detector(loaded, config.detector)
    store = ClipStore(config.clips_folder, config.clips, detector.sample_rate_hz)
    counts: Counter[str] = Counter()
    for heard in detector.push(resample(stream.samples, RATE_HZ, detector.sample_rate_hz)):
        label = heard.event.label
        if heard.event.kind == "detected" and counts[label] < most:
            counts[label] += 1
            store.add(rejected_folder(label), heard.sound, detector.sample_rate_hz)


def beside(talk: Listened, listened: Listened, words: Sequence[Word]) -> dict[str, float]:
    """Return what is missed of an owner's words, %, at thresholds at which talk makes so many false accepts an hour."""
    hours, found = talk.seconds / 3600, {}
    alarms_at = [len(heard) for heard in talk.at_thresholds]
    for rate in _TALK_RATES:
        allowed = rate * hours + 1e-9
        at = next((at for at, alarms in zip(THRESHOLDS, alarms_at, strict=True) if alarms <= allowed), None)
        heard = set() if at is None else hits(words, listened.at(at))[0]
        found[f"{rate:g}"] = missed(words, heard, OWNER) or 0.0
    return found


def stream_of(
    owner: Owner, number: int, backgrounds: Sequence[Floats], snr_db: float, seed: int, *, in_rooms: bool
) -> Stream:
    """Return what is said to the device of an owner, who is one of so many, at a ratio."""
    half = Half(tuple(owner.said), tuple(backgrounds))
    response = impulse_response(np.random.default_rng([seed, number, 1])) if in_rooms else None
    return make_stream(half, snr_db, 1e9, np.random.default_rng([seed, number, int(snr_db)]), response)


def figures(listened: Listened, own: Sequence[Heard], words: Sequence[Word]) -> dict[str, Any]:
    """Return misses in % at rates of false accepts; and at a device's own thresholds, at which it heard ``own``."""
    points = [_counted(heard, words, listened.seconds) for heard in listened.at_thresholds]
    found: dict[str, Any] = {
        who: {
            f"{rate:g}": min((point[who] for point in points if point["accepts"] <= rate), default=100.0)
            for rate in RATES
        }
        for who in (OWNER, OTHERS)
    }
    at_own = _counted(own, words, listened.seconds)
    return found | {
        "own_thresholds": {who: at_own[who] for who in found} | {"false_accepts_per_hour": at_own["accepts"]}
    }


def figures_of_own(listened: Listened, tails: Mapping[str, Tail], words: Sequence[Word]) -> dict[str, Any]:
    """Return :func:`figures` of a device whose labels have these tails."""
    rate = listened.config.false_accepts_per_hour
    own = np.array([tails[label].threshold(rate) for label in listened.labels], np.float32)
    return figures(listened, listened.at(own), words)


def _counted(heard: Sequence[Heard], words: Sequence[Word], seconds: float) -> dict[str, float]:
    """Return misses of both kinds of people in %, and false accepts an hour."""
    found, accepts = hits(words, heard)
    result = {"accepts": accepts / (seconds / 3600)}
    return result | {who: missed(words, found, who) or 0.0 for who in (OWNER, OTHERS)}


def missed(words: Sequence[Word], found: set[int], who: str, label: str | None = None) -> float | None:
    """Return how much of what somebody says, of one label or of any, was not found, %; None where it is nothing."""
    said_by = [number for number, word in enumerate(words) if word.by == who and label in (None, word.label)]
    return 100 * float(np.mean([number not in found for number in said_by])) if said_by else None


def mean(found: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, Any]:
    """Return the means of figures."""
    return {
        key: {name: round(float(np.mean([one[key][name] for one in found])), 1) for name in found[0][key]}
        for key in found[0]
    }
