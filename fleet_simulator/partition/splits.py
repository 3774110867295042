"""Who gets which clips: by speaker, by a Dirichlet distribution over the classes (Hsu et al. 2019), or alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.numbers.arrays import Doubles, Ints
from fleet_simulator.data.corpora import Corpus
from fleet_simulator.errors import CorpusError
from fleet_simulator.experiment.sections import Experiment, FleetSection
from fleet_simulator.partition.clip_shards import Owned


def deal_groups(
    counts: Ints, targets: Doubles, bounded: int, rng: np.random.Generator, *, spread: bool = False
) -> tuple[Ints, Ints]:
    """Give groups, largest first, to the part that lacks most of what they have.

    Args:
        counts: clips of each group and label, int64 [groups, labels].
        targets: clips that each part should get of each label, float64 [parts, labels].
        bounded: so many of the first parts have no use for more than their target; the others have, and the one that
            has least of it first.
        spread: whether a group counts the less for a part, the larger it is beside the part's target, so that parts
            that want few clips get them from many groups: by how much the sum of (target - given)^2 / target falls.

    Returns:
        The groups in the order in which they were given, and the part of each of these.
    """
    order = rng.permutation(len(counts))
    order = order[np.argsort(-counts[order].sum(axis=1), kind="stable")]
    given = np.zeros_like(targets)
    parts = np.empty(len(counts), np.int64)
    for place, group in enumerate(counts[order]):
        lack = np.divide(targets - given, targets, out=np.zeros_like(targets), where=targets > 0)
        if spread:
            lack -= np.divide(group / 2, targets, out=np.zeros_like(targets), where=targets > 0)
        more = 1e-3 * targets[bounded:] / np.maximum(given[bounded:], 1.0)
        lack[bounded:] = np.maximum(lack[bounded:], more)
        wants = (targets[:, group > 0] > 0).any(axis=1)
        parts[place] = np.where(wants, lack @ group, -np.inf).argmax()
        given[parts[place]] += group
    return order, parts


def hold_out(devices: Sequence[Ints], share: float, seed: int, windows: int = 1) -> list[Owned]:
    """Hold ``share`` of every device's rows out at random, in two halves, each rounded.

    ``windows`` rows after one another are of the same recording and stay together.
    """
    rng = np.random.default_rng([seed, 6])
    return [_owned(rows.reshape(-1, windows), share, rng) for rows in devices]


def _owned(recordings: Ints, share: float, rng: np.random.Generator) -> Owned:
    edge = round(share / 2 * len(recordings))
    if not edge:
        return Owned(recordings.ravel(), recordings[:0].ravel(), recordings[:0].ravel())
    order = rng.permutation(recordings)
    parts = order[2 * edge :], order[:edge], order[edge : 2 * edge]
    return Owned(*(np.sort(part.ravel()) for part in parts))


@dataclass(frozen=True)
class Split:
    """Rows of a corpus: one array for each device, those of the public set, and those that models are evaluated on."""

    devices: tuple[Ints, ...]
    public: Ints
    test: Ints


def split(corpus: Corpus, experiment: Experiment) -> Split:
    """Deal the clips out. No speaker is in two of test, public set and devices; nobody's clips are dealt one by one.

    Raises CorpusError: there are fewer speakers or clips than devices, or none to test on.
    """
    data, fleet = experiment.data, experiment.fleet
    rng = np.random.default_rng([experiment.rounds.seed, 2])
    labels = corpus.labels[:: corpus.windows]  # whole recordings are dealt
    who, people, strays = _owners(corpus.speakers[:: corpus.windows])
    parts = []
    for owners in (people, strays):
        ends = np.cumsum([round(share * len(owners)) for share in (data.test, data.public)])
        parts.append(np.split(rng.permutation(owners), ends))
    test, public, private = (np.concatenate(part) for part in zip(*parts, strict=True))
    if experiment.rounds.evaluate_every and not len(test):
        raise CorpusError(
            f"[data] test = {data.test}: of {len(people)} speakers that is nobody, and the fleet's model is tested on "
            "strangers; enlarge it, or bring more speakers (each recording's name says whose it is)"
        )
    rows = np.flatnonzero(np.isin(who, private))
    if len(rows) < fleet.devices:
        raise CorpusError(f"{len(rows)} clips are left for {fleet.devices} devices; ask for fewer, or for more clips")
    shares = _shares(fleet, experiment.rounds.seed)
    if fleet.split in ("speaker", "recording"):
        devices = _by_speaker(who, parts[0][2], parts[1][2], shares, 0 if fleet.shares else 1)
    elif fleet.split == "dirichlet":
        devices = _dirichlet(labels, rows, fleet.alpha * fleet.devices * shares, rng)
    else:
        ends = np.cumsum(_apportioned(len(rows), shares, 1))[:-1]
        devices = [np.sort(part) for part in np.split(rng.permutation(rows), ends)]
    public, test = (np.flatnonzero(np.isin(who, owners)) for owners in (public, test))
    whole = [
        (recordings[:, None] * corpus.windows + np.arange(corpus.windows)).ravel()
        for recordings in (*devices, public, test)
    ]
    return Split(tuple(whole[:-2]), *whole[-2:])


def _owners(speakers: NDArray[np.str_]) -> tuple[Ints, Ints, Ints]:
    """Return every clip's owner, the owners that are speakers, and those that stand for one of nobody's clips."""
    names, who = np.unique(speakers, return_inverse=True)
    alone = np.flatnonzero(speakers == "")
    who[alone] = len(names) + np.arange(len(alone))
    return who, np.flatnonzero(names != ""), who[alone]


def _shares(fleet: FleetSection, seed: int) -> Doubles:
    """Return the devices' shares of the data, float64 [devices] of sum 1: as given, or lognormal, or alike."""
    spread = np.random.default_rng([seed, 8]).standard_normal(fleet.devices)
    sizes = np.array(fleet.shares, np.float64) if fleet.shares else np.exp(fleet.size_spread * spread)
    return np.asarray(sizes / sizes.sum(), np.float64)


def _apportioned(count: int, shares: Doubles, minimum: int) -> Ints:
    """Divide a count of things by shares and largest remainders, int64 [devices]; each gets ``minimum`` first."""
    wanted = (count - minimum * len(shares)) * shares
    counts = minimum + wanted.astype(np.int64)
    order = np.argsort(-(wanted % 1), kind="stable")
    counts[order[: count - counts.sum()]] += 1
    return np.asarray(counts, np.int64)


def _by_speaker(who: Ints, people: Ints, strays: Ints, shares: Doubles, least: int) -> list[Ints]:
    devices = len(shares)
    if len(people) < devices:
        raise CorpusError(
            f"{len(people)} speakers are left for {devices} devices, and no speaker is on two; ask for at most "
            f"{len(people)} devices, or split by 'dirichlet' or 'iid'"
        )
    owner = np.full(int(who.max()) + 1, -1)
    owner[people] = np.repeat(np.arange(devices), _apportioned(len(people), shares, least))
    owner[strays] = np.repeat(np.arange(devices), _apportioned(len(strays), shares, 0))
    return _grouped(owner[who], devices)


def _dirichlet(labels: Ints, rows: Ints, concentrations: Doubles, rng: np.random.Generator) -> list[Ints]:
    """Deal every class out by shares of its own, drawn from Dirichlet(concentrations)."""
    devices = len(concentrations)
    owner = np.full(len(labels), -1)
    for label in np.unique(labels[rows]):
        mine = rng.permutation(rows[labels[rows] == label])
        ends = np.round(np.cumsum(rng.dirichlet(concentrations)) * len(mine)).astype(np.int64)
        owner[mine] = np.minimum(np.searchsorted(ends, np.arange(len(mine)), side="right"), devices - 1)
    return _grouped(owner, devices)


def _grouped(owner: Ints, devices: int) -> list[Ints]:
    """Return the rows of each owner, ascending; owner -1 is nobody."""
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.searchsorted(owner[order], np.arange(devices + 1)))[1:-1]
