"""Label-wise averaging of scores on the public set (Gudur & Perepu 2021, algorithm 1, global update, choice 1).

    f_m^i(x_0)     = f_G^i(x_0) + alpha_m p_m(x_0),   alpha_m = |D_m| / |D_0|                (local update, choice 1)
    f_G^{i+1}(x_0) = sum_m beta_m f_m^i(x_0),   label by label over the devices m that own the label,

p_m are the probabilities that device m uploads, D_m its clips of the round and D_0 the public set. beta = 1 where one
device alone owns the label, else the device's accuracy on the public set. To the letter, a label of several owners
multiplies its history by sum(beta) in every round; the normalised form divides by it. Above chance, the accuracy counts
less that of guessing: a device whose scores are wrong, however sure, then has no weight beside others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aggregator_server.aggregation.plausible import CLIPPED_CLIPS
from aggregator_server.aggregation.rule import ScoreRule
from aggregator_server.errors import AggregationError
from fleet_protocol.arrays import Bools, Doubles, Floats, Ints
from fleet_protocol.setting import Setting


@dataclass(frozen=True)
class DeviceScores:
    """One device's scores on the public set.

    Attributes:
        columns: The fleet's class of every column of ``scores``, int64 [owned].
        scores: f_m, alpha-updated, float32 [samples, owned].
    """

    device_id: str
    columns: Ints
    scores: Floats


@dataclass(frozen=True)
class LabelWise:
    """The new consensus, and how it was computed.

    Attributes:
        scores: Scores of the fleet, float32 [samples, classes].
        accuracies: Every device's accuracy on the public set, 0 to 1.
        betas: Weight of each owner of a column, for every column that somebody uploaded.
        plain_mean: Columns whose weights summed to 0, so that the plain mean was taken.
    """

    scores: Floats
    accuracies: dict[str, float]
    betas: dict[int, dict[str, float]]
    plain_mean: tuple[int, ...]


def alpha_update(own: Floats, consensus: Floats, clips: float) -> Floats:
    """Add a device's probabilities to the fleet's scores: f_m <- f_G + alpha p_m, alpha = |D_m| / |D_0|.

    Args:
        own: float32 [public samples, classes], p_m, of the classes that the device owns.
        consensus: the same columns of f_G; zeros before the first consensus.
        clips: |D_m|, the clips that the device learned from in this round.
    """
    return np.asarray(consensus + own * np.float32(clips / len(own)), np.float32)


def accuracy(device: DeviceScores, labels: Ints, synthetic: Bools) -> float:
    """Return a device's accuracy on the public samples of its classes, 0 to 1.

    A sample counts as right when its class has the device's largest score. Recordings alone count; data impressions
    do where the device's classes have nothing else. Without any sample the accuracy is 0.

    Args:
        device: scores [samples, owned].
        labels: int64 [samples].
        synthetic: bool [samples], True for data impressions.
    """
    owned = np.isin(labels, device.columns)
    rows = owned & ~synthetic
    if not rows.any():
        rows = owned
    if not rows.any():
        return 0.0
    guesses = device.columns[device.scores[rows].argmax(axis=1)]
    return float(np.mean(guesses == labels[rows]))


def label_wise(
    devices: Sequence[DeviceScores],
    labels: Ints,
    synthetic: Bools,
    previous: Floats,
    normalise: bool = True,
    above_chance: bool = False,
) -> LabelWise:
    """Average scores label by label; a label that nobody uploaded keeps its column.

    Args:
        devices: the uploads, in any order: the result does not depend on it.
        labels: int64 [samples], the public samples' classes.
        synthetic: bool [samples], True for data impressions.
        previous: float32 [samples, classes], the consensus so far; zeros before the first round.
        normalise: divide by sum(beta) label by label; False is the paper to the letter.
        above_chance: beta is max(0, accuracy - 1 / classes of the device); False is the paper to the letter.

    Raises:
        AggregationError: the sums no longer fit float32 (the literal form grows geometrically).
    """
    ordered = sorted(devices, key=lambda device: device.device_id)
    accuracies = {device.device_id: accuracy(device, labels, synthetic) for device in ordered}
    chance = {device.device_id: 1 / max(1, len(device.columns)) if above_chance else 0.0 for device in ordered}
    counting = {name: max(0.0, value - chance[name]) for name, value in accuracies.items()}
    scores = previous.copy()
    betas: dict[int, dict[str, float]] = {}
    plain_mean: list[int] = []
    for column, owners in sorted(_owners(ordered).items()):
        weights = np.array([counting[name] for name, _ in owners]) if len(owners) > 1 else np.ones(1)
        if weights.sum() == 0:
            weights = np.full(len(owners), 1 / len(owners))
            plain_mean.append(column)
        total = np.sum([weight * values for weight, (_, values) in zip(weights, owners, strict=True)], axis=0)
        betas[column] = {name: float(weight) for weight, (name, _) in zip(weights, owners, strict=True)}
        scores[:, column] = _float32(total / weights.sum() if normalise else total, column)
    return LabelWise(scores, accuracies, betas, tuple(plain_mean))


def _owners(devices: Sequence[DeviceScores]) -> dict[int, list[tuple[str, Doubles]]]:
    """Every uploaded column's owners with their scores, float64 [samples]."""
    owners: dict[int, list[tuple[str, Doubles]]] = {}
    for device in devices:
        for index, column in enumerate(device.columns):
            values = device.scores[:, index].astype(np.float64)
            owners.setdefault(int(column), []).append((device.device_id, values))
    return owners


def _float32(values: Doubles, column: int) -> Floats:
    largest = float(np.abs(values).max(initial=0.0))
    if largest > float(np.finfo(np.float32).max):
        raise AggregationError(
            f"the consensus for class column {column} reached {largest:.3g}, which float32 cannot hold; "
            "start the next round with the aggregation setting normalise=true"
        )
    return values.astype(np.float32)


RULE = ScoreRule(
    "label_wise",
    {
        "normalise": Setting(True, "divide by sum(beta) label by label; false: the paper to the letter"),
        "above_chance": Setting(True, "beta is the accuracy less that of guessing; false: the paper to the letter"),
    }
    | CLIPPED_CLIPS,
)
