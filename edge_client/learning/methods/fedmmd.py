"""FedMMD (Yao et al. 2018): the local model's answers to the device's clips keep the distribution of the fleet's.

L = CE + lambda MMD^2(z_global, z_local) with a sum of Gaussian kernels. The published form compares features; a
bundle's graph takes gradients at its output alone, so here z are the centred logits of the trained classes, the
features as the head sees them. A target t that sums to 1 has the gradient softmax - t there, so
t = label - lambda dMMD^2/dz is exact.
"""

import numpy as np

from edge_client.learning.methods.local_method import LocalMethod, LocalTask, TrainingPlan
from fleet_protocol.methods.local_methods import FEDMMD as TERMS
from fleet_protocol.numbers.arrays import Doubles, Floats

# Kernel widths as factors on the mean squared distance (Long et al. 2015 take powers of two around it).
_WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
_SMALLEST = 1e-8


def prepare(task: LocalTask) -> TrainingPlan:
    """Targets are the labels, less lambda times the discrepancy's gradient."""
    mask, weight = task.mask, task.number("discrepancy")
    on = np.flatnonzero(mask)
    fleet = task.own  # the same graph; it gets what was trained afterwards anyway
    fleet.set_weights(task.shared.get_weights())

    def targets(x: Floats, labels: Floats) -> Floats:
        local, theirs = (logits(model.predict(x, mask)[:, on]) for model in (task.shared, fleet))
        wanted = labels.copy()
        # The graph's loss is a mean over the rows, the discrepancy is one of the batch as a whole.
        wanted[:, on] -= weight * len(x) * discrepancy_gradient(local, theirs)
        return wanted

    return TrainingPlan(targets)


def logits(probabilities: Floats) -> Floats:
    """Return logits of mean 0, [rows, classes], of probabilities."""
    log = np.log(np.maximum(probabilities, 1e-12))
    return np.asarray(log - log.mean(axis=1, keepdims=True), np.float32)


def discrepancy(local: Floats, fleet: Floats) -> float:
    """Return MMD^2 = mean k(l, l') + mean k(f, f') - 2 mean k(l, f), of rows [n, classes]."""
    widths = _kernel_widths(local, fleet)
    within = _kernel(local, local, widths).mean() + _kernel(fleet, fleet, widths).mean()
    return float(within - 2 * _kernel(local, fleet, widths).mean())


def discrepancy_gradient(local: Floats, fleet: Floats) -> Floats:
    """Return dMMD^2/dlocal, float32 [n, classes]; the kernels' widths count as constants. Rows sum to 0."""
    widths, rows = _kernel_widths(local, fleet), len(local)
    gradient = np.zeros(local.shape)
    for other, sign in ((local, 1.0), (fleet, -1.0)):
        difference = local[:, None, :].astype(np.float64) - other[None]
        squared = (difference**2).sum(axis=2)
        slope = sum(-2 / width * np.exp(-squared / width) for width in widths)
        gradient += sign * 2 / rows**2 * (slope[:, :, None] * difference).sum(axis=1)
    return np.asarray(gradient, np.float32)


def _kernel(a: Floats, b: Floats, widths: list[float]) -> Doubles:
    squared = ((a[:, None, :].astype(np.float64) - b[None]) ** 2).sum(axis=2)
    return np.asarray(sum(np.exp(-squared / width) for width in widths))


def _kernel_widths(local: Floats, fleet: Floats) -> list[float]:
    points = np.concatenate([local, fleet]).astype(np.float64)
    mean = 2 * float((points - points.mean(axis=0)).var(axis=0).sum())
    return [max(mean, _SMALLEST) * factor for factor in _WIDTHS]


METHOD = LocalMethod("fedmmd", TERMS.settings, prepare, summed=True)
