"""A taught device lives in a room: replayed from embeddings, as its detector and its counts would take them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.listening.measurement import Heard, Listened, averaged
from benchmarks.listening.one_front_end import earlier_of
from benchmarks.living.rooms import Part
from edge_client.config import Config
from edge_client.config.sections import DetectorConfig
from edge_client.daemon.listening_loop import load_listening
from edge_client.detection.detector import Loaded
from edge_client.detection.observed_rates import ObservedRates
from edge_client.detection.pace import pace_of
from edge_client.detection.scores import Scorer, windows_before
from edge_client.detection.thresholds import Tail
from edge_client.storage.database import FILE, Database
from fleet_protocol.numbers.arrays import Doubles, Floats

PROMISES = (0.5, 1.0, 2.0)
# Promises among which it is looked for that at which the false accepts are really as many as was promised.
DIAL = tuple(2.0 ** (step / 2) for step in range(-10, 9))
# Monday, 5 January 2026, 0:00 UTC.
_BEGIN_S = 1_767_571_200.0
DAY_S, HOUR_S = 86_400.0, 3600.0


class Life:
    """A device that was taught, and the room that it hears."""

    def __init__(self, config: Config) -> None:
        """Begin on day 0, with nothing heard."""
        self.now = load_listening(config)
        self._device, self._config = config, config.detector
        self._features = self.now.model.manifest.feature_settings.digest
        self._clock = _BEGIN_S
        database = Database(config.device.state / FILE)
        self._rates = ObservedRates(database, self._features, lambda: self._clock)

    def hear(self, day: int, parts: Sequence[Part]) -> None:
        """Listen for a day, and take up the thresholds that follow."""
        for part in parts:
            self._listen(day, part)
        self._rates.save()
        self.now = load_listening(self._device)

    def _listen(self, day: int, part: Part) -> None:
        means, at_s = scores_of(part, self.now, self._config), times(part)
        labels = self.now.label_map.names
        limits = thresholds(labels, self.now.tails, [self._config.false_accepts_per_hour])
        (events,) = decided(self.now, means, at_s, limits, self._config)
        heard = {round(one.at_s / part.hop_s): one.label for one in events}
        begin, quiet = _BEGIN_S + day * DAY_S + part.hour * HOUR_S, _is_quiet(part, self._config)
        blocks = self._rates.listener(self.now)
        for row, silent, at in zip(means, quiet, at_s, strict=True):
            self._clock = begin + float(at)
            blocks.look(part.hop_s, None if silent else row, heard.get(round(at / part.hop_s), ""), "")


def _is_quiet(part: Part, config: DetectorConfig) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray(part.levels_db < config.energy_gate_db)


def scores_of(part: Part, loaded: Loaded, config: DetectorConfig) -> Floats:
    """Return the scores of a part's windows as the detector averages them, float32 [windows, labels]."""
    pace = pace_of(config, loaded.model.manifest.feature_settings)
    scorer = Scorer(loaded.model, loaded.label_map, loaded.prototypes, loaded.built_in)
    rows = part.embeddings.astype(np.float32)
    earlier = earlier_of(rows, windows_before(pace.hop_s), scorer.states)[:, :, None]
    windows, quiet = scorer.windows(rows[:, None], earlier), _is_quiet(part, config)
    scores, limits = scorer.of(windows), scorer.limits(windows)
    scores[quiet], limits[quiet] = 0.0, 1.0
    return averaged(scores, times(part), pace.average_s, limits)


def times(part: Part) -> Doubles:
    """Return when each window ended, float64 [windows], s from the part's begin."""
    return part.clip_s + part.hop_s * np.arange(len(part.embeddings))


def thresholds(labels: Sequence[str], tails: Mapping[str, Tail], promises: Sequence[float]) -> Floats:
    """Return the labels' thresholds for promised rates, float32 [labels, promises]."""
    return np.array([[tails[label].threshold(rate) for rate in promises] for label in labels], np.float32)


def decided(loaded: Loaded, means: Floats, at_s: Doubles, columns: Floats, config: DetectorConfig) -> list[list[Heard]]:
    """Return what a detector hears with averaged scores, float32 [windows, labels], at each [labels, thresholds]."""
    names, lasting, longer = loaded.label_map.names, loaded.lasting, loaded.longer
    return Listened(names, (), means, at_s, config, 0.0, lasting=lasting, longer=longer).at_each(columns)


@dataclass(frozen=True)
class Measured:
    """Figures of one device on one day, each by promised rate, those of :data:`DIAL`.

    Attributes:
        missed: by ratio in dB and label, for every taught word or sound whether it was missed.
        accepts: false accepts by label.
        hours: of sound loud enough to be classified, without a taught word.
    """

    missed: dict[float, dict[float, dict[str, list[bool]]]]
    accepts: dict[float, dict[str, int]]
    hours: float


def measure(loaded: Loaded, days: Sequence[Part], words: Mapping[float, Part], config: DetectorConfig) -> Measured:
    """Count false accepts in parts without taught words, and misses of taught words; ``words`` by ratio in dB."""
    labels = loaded.label_map.names
    streams = [(scores_of(part, loaded, config), times(part)) for part in days]
    said = {snr: (scores_of(part, loaded, config), times(part), part) for snr, part in words.items()}
    loud_s = sum(part.hop_s * int((~_is_quiet(part, config)).sum()) for part in days)
    limits = thresholds(labels, loaded.tails, DIAL)
    counts = [Counter[str]() for _ in DIAL]
    for means, at_s in streams:
        for count, events in zip(counts, decided(loaded, means, at_s, limits, config), strict=True):
            count.update(one.label for one in events)
    accepts = {at: {label: count[label] for label in labels} for at, count in zip(DIAL, counts, strict=True)}
    missed: dict[float, dict[float, dict[str, list[bool]]]] = {at: {} for at in DIAL}
    for snr, (means, at_s, part) in said.items():
        for at, events in zip(DIAL, decided(loaded, means, at_s, limits, config), strict=True):
            missed[at][snr] = _missed(part, events)
    return Measured(missed, accepts, loud_s / HOUR_S)


def _missed(part: Part, heard: Sequence[Heard]) -> dict[str, list[bool]]:
    """Return for every taught word whether there is no event of it until a window and a hop after its end."""
    late_s = part.clip_s + part.hop_s
    found: dict[str, list[bool]] = {}
    for word in part.words:
        until_s = word.begin_s + word.seconds + late_s
        own = [one for one in heard if one.label == word.label and word.begin_s <= one.at_s <= until_s]
        found.setdefault(str(word.label), []).append(not own)
    return found
