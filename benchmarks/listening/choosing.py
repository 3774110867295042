"""Chooses what counts how much in a word's score, on recordings of words: one number after the other, up and down.

Each tuning set is a folder `<word>/<speaker>_*`. Devices are taught and streams are heard once; a trial scores the same
windows by another table, as the device would, thresholds included. A number stays where it was unless the words missed
become fewer: the mean over sets and noise, of at most ten and at most two false alarms an hour.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import said
from benchmarks.listening.front_ends import new_device
from benchmarks.listening.material import Word
from benchmarks.listening.measurement import in_parts
from benchmarks.listening.one_front_end import Hops, hear
from benchmarks.listening.own_words import OWNER, Owner, figures_of_own, mean, stream_of
from edge_client.clips.folders import store_digest
from edge_client.config.sections import DetectorConfig
from edge_client.detection.detector import Loaded
from edge_client.detection.longer_words import longer_words
from edge_client.detection.scores import Scorer, ScoreTable, Windows
from edge_client.learning.teaching.job import NO_CLIPS, lesson_of
from edge_client.learning.teaching.material import Material
from edge_client.learning.teaching.prototypes import prototypes_of
from edge_client.learning.teaching.tails import tails_of
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.device_state import DeviceState
from fleet_protocol.numbers.arrays import Floats

STEPS = {
    "yes": 0.25,
    "no": 0.5,
    "cosine": 10.0,
    "nearest": 0.2,
    "lack": 2.0,
    "before": 0.1,
    "weakest": 0.15,
    "after": 1.0,
}
"""Numbers of the table that are tried, in this order, and by how much each is changed."""
_SHARES = ("nearest", "before", "weakest")  # are at most 1
_AT_MOST = ("10", "2")  # false alarms an hour


@dataclass(frozen=True)
class Heard:
    """What an owner's device heard of one stream."""

    windows: Windows
    hops: Hops
    words: tuple[Word, ...]


@dataclass(frozen=True)
class Device:
    """One owner's device: what it was taught, and by noise what it heard."""

    model: ModelRuntime
    material: Material
    others: Windows  # by which thresholds are set
    heard: Mapping[float, Heard]
    config: DetectorConfig

    def figures(self, table: ScoreTable) -> dict[float, dict[str, Any]]:
        """Return by noise what it misses with a table."""
        near, material = prototypes_of(self.material, table), self.material
        scorer = Scorer(self.model, material.listening_labels, near, material.built_in, table)
        tails, labels = tails_of(material, near, scorer.of(self.others), table), material.label_map.names
        found = {}
        for snr_db, one in self.heard.items():
            scores = one.hops.scored(scorer, one.windows)
            listened = replace(one.hops.listened, labels=labels, heard=(), scores=scores, longer=longer_words(near))
            found[snr_db] = figures_of_own(listened, tails, one.words)
        return found


def device_of(
    bundle: Path,
    owner: Owner,
    number: int,
    room: Sequence[Floats],
    backgrounds: Sequence[Floats],
    snrs_db: Sequence[float],
    seed: int,
) -> Device:
    """Teach an owner's device, and let it hear what is said to it in a room at each ratio."""
    with tempfile.TemporaryDirectory() as folder:
        config = new_device(Path(folder), bundle, owner.takes, room)
        state = DeviceState(config.device.state)
        saved = state.model.load(config.bundle)
        draws = int(store_digest(config.clips_folder) or NO_CLIPS, 16)
        taught = lesson_of(config, state, saved, draws).learn()
    model, material = ModelRuntime(saved.bundle), taught.material
    model.set_weights(taught.weights)
    scorer = Scorer(model, material.listening_labels, taught.prototypes, material.built_in)
    others = scorer.windows(*material.others(scorer.states, np.random.default_rng([draws, 3])))
    loaded = Loaded(model, material.listening_labels, taught.tails, taught.prototypes, material.built_in)
    heard = {}
    for snr_db in snrs_db:
        stream = stream_of(owner, number, backgrounds, snr_db, seed, in_rooms=True)
        hops = hear(loaded, in_parts(stream.samples), config.detector)
        windows = _short(scorer.windows(hops.features, hops.earlier(scorer.states)))
        heard[snr_db] = Heard(windows, replace(hops, features=hops.features[:0]), stream.words)
    return Device(model, material, _short(others), heard, config.detector)


def _short(windows: Windows) -> Windows:
    """Return windows that need half the memory."""
    ago = None if windows.ago is None else windows.ago.astype(np.float32)
    return windows._replace(directions=windows.directions.astype(np.float32), ago=ago)


def tried(table: ScoreTable, sets: Mapping[str, Sequence[Device]]) -> dict[str, Any]:
    """Return what devices miss with a table, %: by set and noise, and the means over both."""
    by_set = {}
    for name, devices in sets.items():
        rows = [device.figures(table) for device in devices]
        by_set[name] = {f"{snr_db:g}": mean([row[snr_db] for row in rows]) for snr_db in rows[0]}
    every = [row for rows in by_set.values() for row in rows.values()]

    def average(key: str, name: str) -> float:
        return round(float(np.mean([row[key][name] for row in every])), 2)

    missed = {f"at most {rate}": average(OWNER, rate) for rate in _AT_MOST}
    own = {"own": average("own_thresholds", OWNER), "alarms": average("own_thresholds", "false_accepts_per_hour")}
    return {"missed": round(float(np.mean(list(missed.values()))), 2), **missed, **own, "sets": by_set}


def number_of(table: ScoreTable, kind: str, name: str) -> float:
    """Return a number of the table, of a kind of words or of all."""
    return float(getattr(getattr(table, kind) if name in table.word.__dict__ else table, name))


def _with_number(table: ScoreTable, kind: str, name: str, value: float) -> ScoreTable:
    """Return a table with another number."""
    of_all = name not in table.word.__dict__
    changed: dict[str, Any] = {name: value} if of_all else {kind: replace(getattr(table, kind), **{name: value})}
    return replace(table, **changed)


class Search:
    """A search from a table.

    Attributes:
        table: The best that was found.
        best: Its figures.
        trials: Figures of each table that was tried, the first those of the start.
    """

    def __init__(self, table: ScoreTable, kind: str, sets: Mapping[str, Sequence[Device]], most: int) -> None:
        """``kind`` of the words that are taught: ``word`` or ``other_word``. ``most``: so many trials at most."""
        self.table, self._kind, self._sets, self._most = table, kind, sets, most
        self.best = said({"trial": "start", **tried(table, sets)})
        self.trials = [self.best]
        while self._once():
            pass

    def _once(self) -> bool:
        """Try each number up and down, further where that was better; return whether any was."""
        before = self.table
        for name, step in STEPS.items():
            largest = 1.0 if name in _SHARES else np.inf
            if not self._along(name, step, largest):
                self._along(name, -step, largest)
        return self.table != before

    def _along(self, name: str, by: float, largest: float) -> bool:
        """Change a number as long as it becomes better; return whether it did."""
        start = value = number_of(self.table, self._kind, name)
        while len(self.trials) < self._most and 0 <= (value := round(value + by, 6)) <= largest:
            other = _with_number(self.table, self._kind, name, value)
            row = said({"trial": f"{name} {value:g}", **tried(other, self._sets)})
            self.trials.append(row)
            if row["missed"] >= self.best["missed"]:
                break
            self.best, self.table = row, other
        return number_of(self.table, self._kind, name) != start


def written(source: str, search: Search, kind: str) -> str:
    """Return the text of a table's file with the numbers that a search found, and what they came to."""
    for name in STEPS:
        before = rf"(?ms)(^\[{kind}\].*?^{name} = )" if name in search.table.word.__dict__ else rf"(?m)(^{name} = )"
        source = re.sub(before + r"[\d.]+", rf"\g<1>{number_of(search.table, kind, name)!r}", source, count=1)
    first, best = search.trials[0], search.best
    lines = [f"# {len(search.trials)} trials on {', '.join(best['sets'])}; misses in %, false alarms an hour:"]
    lines += [
        f"# {name}: " + ", ".join(f"{key} {row[key]:g}" for key in ("at most 10", "at most 2", "own", "alarms"))
        for name, row in (("before", first), ("now", best))
    ]
    return "\n".join([*lines, "", re.sub(r"\A# \d+ trials on .*\n.*\n.*\n\n", "", source)])
