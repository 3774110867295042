"""Who gets which clips: by speaker, by a Dirichlet distribution over the classes (Hsu et al. 2019), or alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleet_simulator.corpora import Corpus
from fleet_simulator.errors import CorpusError
from fleet_simulator.experiment import Experiment

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Rows of a corpus: one array for each device, those of the public set, and those that models are judged by."""

    devices: tuple[Rows, ...]
    public: Rows
    test: Rows


def split(corpus: Corpus, experiment: Experiment) -> Split:
    """Deal the clips out. No speaker is in two of test, public set and devices.

    Raises:
        CorpusError: there are fewer speakers or clips than devices.
    """
    data, fleet = experiment.data, experiment.fleet
    rng = np.random.default_rng([experiment.rounds.seed, 2])
    names, who = np.unique(corpus.speakers, return_inverse=True)
    order = rng.permutation(len(names))
    ends = np.cumsum([round(share * len(names)) for share in (data.test, data.public)])
    test, public, private = np.split(order, ends)
    rows = np.flatnonzero(np.isin(who, private))
    if fleet.split == "speaker":
        devices = _by_speaker(who, private, fleet.devices)
    elif fleet.split == "dirichlet":
        devices = _dirichlet(corpus.labels, rows, fleet.devices, fleet.alpha, rng)
    else:
        devices = [np.sort(part) for part in np.array_split(rng.permutation(rows), fleet.devices)]
    if len(rows) < fleet.devices:
        raise CorpusError(f"{len(rows)} clips are left for {fleet.devices} devices; ask for fewer, or for more clips")
    return Split(tuple(devices), np.flatnonzero(np.isin(who, public)), np.flatnonzero(np.isin(who, test)))


def _by_speaker(who: Rows, private: Rows, devices: int) -> list[Rows]:
    if len(private) < devices:
        raise CorpusError(
            f"{len(private)} speakers are left for {devices} devices, and no speaker is on two; ask for at most "
            f"{len(private)} devices, or split by 'dirichlet' or 'iid'"
        )
    owner = np.full(int(who.max()) + 1, -1)
    owner[private] = np.arange(len(private)) % devices
    return _grouped(owner[who], devices)


def _dirichlet(labels: Rows, rows: Rows, devices: int, alpha: float, rng: np.random.Generator) -> list[Rows]:
    """Deal every class out by shares of its own, drawn from Dirichlet(alpha)."""
    owner = np.full(len(labels), -1)
    for label in np.unique(labels[rows]):
        mine = rng.permutation(rows[labels[rows] == label])
        ends = np.round(np.cumsum(rng.dirichlet(np.full(devices, alpha))) * len(mine)).astype(np.int64)
        owner[mine] = np.minimum(np.searchsorted(ends, np.arange(len(mine)), side="right"), devices - 1)
    return _grouped(owner, devices)


def _grouped(owner: Rows, devices: int) -> list[Rows]:
    """Return the rows of each owner, ascending; owner -1 is nobody."""
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.searchsorted(owner[order], np.arange(devices + 1)))[1:-1]
