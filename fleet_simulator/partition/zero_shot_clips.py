"""Who has which clips where every user has labels of its own: public set, test clips, and each user's stock.

No speaker (or recording) is in two of them, unless the experiment says so. A user takes a random number of each
label's clips into a round, as in Gudur & Perepu 2021, table 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import Manifest
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassInfo
from fleet_protocol.numbers.arrays import Doubles, Floats, Ints
from fleet_simulator.data.corpora import Corpus
from fleet_simulator.data.recording_layouts import NOBODY
from fleet_simulator.errors import CorpusError
from fleet_simulator.experiment.sections import ZeroShotExperiment
from fleet_simulator.partition.splits import deal_groups


@dataclass(frozen=True)
class Stock:
    """A user's clips of one label: rows of the corpus, and how many of them the user has from which round on."""

    rows: Ints
    arrivals: tuple[tuple[int, int], ...]

    def available(self, round_id: int) -> int:
        """Return how many clips, counted from the first, the user has in a round."""
        return min(len(self.rows), sum(count for since, count in self.arrivals if since <= round_id))

    def split(self, round_id: int, held_out: float) -> tuple[Ints, Ints]:
        """Return the rows that the user has in a round, without those held out, and those: evenly spread."""
        have = np.arange(self.available(round_id))
        chosen = np.floor((have + 1) * held_out) > np.floor(have * held_out)
        return self.rows[have[~chosen]], self.rows[have[chosen]]


class UserClips:
    """The clips of an experiment, as features that are NOT normalised."""

    def __init__(self, experiment: ZeroShotExperiment, corpus: Corpus, manifest: Manifest) -> None:
        """Deal the clips out."""
        self._corpus, self._seed = corpus, experiment.rounds.seed
        self._settings = manifest.feature_settings
        self._mean, self._std = np.asarray(manifest.mean, np.float32), np.asarray(manifest.std, np.float32)
        self._slots = {label: corpus.names.index(label) for label in experiment.labels}
        parts = self._deal(experiment)
        self.test = {label: parts[1][label] for label in experiment.labels}
        public = {label: parts[0][label][: experiment.zero_shot.public] for label in experiment.known}
        self.public_set = PublicSet(
            self._settings,
            tuple(ClassInfo(label, label) for label in experiment.known),
            self.features(np.concatenate(list(public.values()))),
            np.repeat(np.arange(len(public)), [len(rows) for rows in public.values()]),
            np.zeros(sum(map(len, public.values())), np.bool_),
        )
        self.stocks = [
            {label: Stock(part[label], _arrivals(experiment, user, label)) for label in section.all_labels}
            for user, (section, part) in enumerate(zip(experiment.users, parts[2:], strict=True))
        ]
        self.section = experiment.zero_shot

    def features(self, rows: Ints) -> Floats:
        """Return float32 [n, frames, coefficients], not normalised."""
        return np.asarray(self._corpus.features(rows) * self._std + self._mean, np.float32)

    def own_features(self, rows: Ints) -> Floats:
        """Return the same of clips that users have, with the noise that is in these."""
        return np.asarray(self._corpus.on_devices(rows)[:, 0] * self._std + self._mean, np.float32)

    def of_round(self, user: int, round_id: int) -> dict[str, Ints]:
        """Return the rows that a user takes into a round by label, in alphabetical order as on a device."""
        drawn = {}
        for label in sorted(self.stocks[user]):
            rows, _ = self.stocks[user][label].split(round_id, self.section.held_out)
            if not len(rows):
                continue
            rng = np.random.default_rng([self._seed, 7, user, round_id, self._slots[label]])
            wanted = int(rng.integers(self.section.clips[0], self.section.clips[1] + 1))
            drawn[label] = rows[rng.permutation(len(rows))[:wanted]]
        return drawn

    def held_out(self, user: int, round_id: int) -> dict[str, Ints]:
        """Return the rows of every label that a user never trains on; as many of each as it takes into a round."""
        stocks, share = self.stocks[user], self.section.held_out
        rows = {label: stocks[label].split(round_id, share)[1] for label in sorted(stocks)}
        return {label: found[: self.section.clips[1]] for label, found in rows.items() if len(found)}

    def _deal(self, experiment: ZeroShotExperiment) -> list[dict[str, Ints]]:
        labels = experiment.labels
        column = {slot: place for place, slot in enumerate(self._slots.values())}
        rows = np.flatnonzero(np.isin(self._corpus.labels, list(column)))
        places = np.array([column[int(slot)] for slot in self._corpus.labels[rows]], np.int64)
        speakers = self._corpus.speakers[rows]
        names, who = np.unique(speakers, return_inverse=True)
        alone = (speakers == NOBODY) | (not experiment.zero_shot.by_speaker)
        who[alone] = len(names) + np.arange(alone.sum())
        counts = np.zeros((len(names) + int(alone.sum()), len(labels)), np.int64)
        np.add.at(counts, (who, places), 1)
        rng = np.random.default_rng([self._seed, 2])
        order, given = deal_groups(counts, _targets(experiment, counts.sum(axis=0)), 2, rng, spread=True)
        part = np.empty(len(counts), np.int64)
        part[order] = given
        parts = [
            {
                label: rng.permutation(rows[(part[who] == number) & (places == place)])
                for place, label in enumerate(labels)
            }
            for number in range(2 + len(experiment.users))
        ]
        _require_clips(experiment, parts)
        return parts


def _targets(experiment: ZeroShotExperiment, counts: Ints) -> Doubles:
    """Return how many clips of each label public set, test and users should get: float64 [2 + users, labels]."""
    targets = np.zeros((2 + len(experiment.users), len(experiment.labels)))
    for place, (label, count) in enumerate(zip(experiment.labels, counts, strict=True)):
        if label in experiment.known:
            targets[0, place] = experiment.zero_shot.public
        targets[1, place] = experiment.data.test * count
        owners = [2 + user for user, section in enumerate(experiment.users) if label in section.all_labels]
        targets[owners, place] = max(1.0, (count - targets[:2, place].sum()) / len(owners))
    return targets


def _require_clips(experiment: ZeroShotExperiment, parts: list[dict[str, Ints]]) -> None:
    wanted = [("the public set", experiment.known), ("the test", experiment.labels)]
    wanted += [(f"user {number}", user.all_labels) for number, user in enumerate(experiment.users, 1)]
    for (who, labels), part in zip(wanted, parts, strict=True):
        for label in labels:
            if not len(part[label]):
                raise CorpusError(
                    f"{who} would get no clip of {label!r}: its clips are by too few speakers, none of whom may be in "
                    "two parts; take a smaller [zero_shot] public or [data] test, or fewer users with that label"
                )


def _arrivals(experiment: ZeroShotExperiment, user: int, label: str) -> tuple[tuple[int, int], ...]:
    section = experiment.users[user]
    start = ((1, 2**31),) if label in section.labels else ()
    return start + tuple((event.round, event.clips) for event in section.events if event.label == label)


def variants(x: Floats, copies: int, shift_s: float, settings: FeatureSettings, rng: np.random.Generator) -> Floats:
    """Return clips and copies of them, shifted in time by whole frames: float32 [1 + copies, n, frames, coefficients].

    The frame at the edge is repeated. On a device the sound itself is shifted, and noise is added; here are features.
    """
    frames = x.shape[1]
    max_frames = int(shift_s / settings.hop_s + 1e-6)
    by = rng.integers(-max_frames, max_frames + 1, size=(copies, len(x)))
    taken = np.clip(np.arange(frames) - by[:, :, None], 0, frames - 1)
    moved = x[np.arange(len(x))[:, None], taken] if copies else np.zeros((0, *x.shape), np.float32)
    return np.concatenate([x[None], moved])


def as_clips(features: Mapping[int, Floats], model: ModelRuntime) -> Clips:
    """Return features, not normalised, by slot as clips without variants."""
    settings = model.manifest.feature_settings
    x = np.concatenate([np.zeros((0, *settings.shape), np.float32), *features.values()])
    slots = np.repeat(np.array(list(features), np.int64), [len(part) for part in features.values()])
    return Clips(model.normalise(x)[None], slots)
