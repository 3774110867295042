"""Label-wise beta averaging of scores on the public set (Gudur & Perepu 2021, algorithm 1, global update, choice 1).

    f_G^{i+1}(x_0) = sum_m beta_m f_m^i(x_0),   label by label over the devices m that own the label,

f_m^i are device m's alpha-updated scores, x_0 the public set. beta = 1 where one device alone owns
the label, else the device's accuracy on the public set. To the letter, a label of several owners
multiplies its history by sum(beta) in every round; the normalised form divides by it. Above chance, the accuracy counts
less that of guessing: a device whose scores are wrong, however sure, then has no weight beside others.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from aggregator_server.aggregation.input_bounds import CLIPPED_CLIPS
from aggregator_server.aggregation.rule import Rule
from aggregator_server.errors import AggregationError
from fleet_protocol.methods.setting import Setting
from fleet_protocol.numbers.arrays import Bools, Doubles, Floats, Ints

DETAILED = 10_000  # devices up to which a round's details have every owner's weight of every class


@dataclass(frozen=True)
class DeviceScores:
    """One device's scores on the public set."""

    device_id: str
    columns: Ints  # the fleet's class of every column of ``scores``, int64 [owned]
    # f_m, alpha-updated, float32 [samples, owned]; or a function that reads them, for all devices' may be large.
    scores: Floats | Callable[[], Floats]

    def read(self) -> Floats:
        """Return the scores."""
        return self.scores() if callable(self.scores) else self.scores


@dataclass(frozen=True)
class LabelWise:
    """The new consensus, and how it was computed."""

    scores: Floats  # Scores of the fleet, float32 [samples, classes]
    accuracies: dict[str, float]  # Every device's accuracy on the public set, 0 to 1
    # Weight of each owner of a column, for every column that somebody uploaded; empty beyond ``DETAILED`` devices
    betas: dict[int, dict[str, float]]
    plain_mean: tuple[int, ...]  # Columns whose weights summed to 0, so that the plain mean was taken


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
    guesses = device.columns[device.read()[rows].argmax(axis=1)]
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
        devices: the uploads, in any order: the result does not depend on it. Each one's scores are read once.
        labels: int64 [samples], the public samples' classes.
        synthetic: bool [samples], True for data impressions.
        previous: float32 [samples, classes], the consensus so far; zeros before the first round.
        normalise: divide by sum(beta) label by label; False is the paper to the letter.
        above_chance: beta is max(0, accuracy - 1 / classes of the device); False is the paper to the letter.

    Raises AggregationError: the sums no longer fit float32 (the literal form grows geometrically).
    """
    ordered = sorted(devices, key=lambda device: device.device_id)
    owners = Counter(column for device in ordered for column in device.columns.tolist())
    accuracies: dict[str, float] = {}
    weights: dict[int, list[float]] = {column: [] for column in sorted(owners)}
    # Sums of the owners' scores by their weights, and of those without weight.
    weighted, plain = np.zeros(previous.shape), np.zeros(previous.shape)
    for device in ordered:
        read = replace(device, scores=device.read())
        accuracies[device.device_id] = right = accuracy(read, labels, synthetic)
        counting = max(0.0, right - (1 / max(1, len(device.columns)) if above_chance else 0.0))
        values, columns = read.read().astype(np.float64), device.columns.tolist()
        of_columns = np.array([counting if owners[column] > 1 else 1.0 for column in columns])
        weighted[:, device.columns] += of_columns * values
        if not counting:
            plain[:, device.columns] += np.array([1 / owners[column] for column in columns]) * values
        for column, weight in zip(columns, of_columns.tolist(), strict=True):
            weights[column].append(weight)
    scores = previous.copy()
    plain_mean = tuple(column for column, found in weights.items() if not any(found))
    for column in plain_mean:
        weights[column] = [1 / owners[column]] * owners[column]
        weighted[:, column] = plain[:, column]
    for column, found in weights.items():
        total = weighted[:, column]
        scores[:, column] = _float32(total / np.array(found).sum() if normalise else total, column)
    return LabelWise(scores, accuracies, _betas(ordered, weights), plain_mean)


def _betas(devices: Sequence[DeviceScores], weights: dict[int, list[float]]) -> dict[int, dict[str, float]]:
    """Return the owners' weights of every column by device."""
    if len(devices) > DETAILED:
        return {}
    owners: dict[int, list[str]] = {column: [] for column in weights}
    for device in devices:
        for column in device.columns.tolist():
            owners[column].append(device.device_id)
    return {column: dict(zip(owners[column], weights[column], strict=True)) for column in weights}


def _float32(values: Doubles, column: int) -> Floats:
    largest = float(np.abs(values).max(initial=0.0))
    if largest > float(np.finfo(np.float32).max):
        raise AggregationError(
            f"the consensus for class column {column} reached {largest:.3g}, which float32 cannot hold; "
            "start the next round with the aggregation setting normalise=true"
        )
    return values.astype(np.float32)


RULE = Rule(
    "label_wise",
    {
        "normalise": Setting(True, "divide by sum(beta) label by label; false: the paper to the letter"),
        "above_chance": Setting(True, "beta is the accuracy less that of guessing; false: the paper to the letter"),
    }
    | CLIPPED_CLIPS,
)
