"""What models are worth: a classifier's metrics."""

import numpy as np

from fleet_protocol.numbers.arrays import Ints


def metrics(confusion: Ints) -> dict[str, float]:
    """Return a model's metrics, each 0..1.

    Args:
        confusion: [classes, classes], how many clips of each class (row) were taken for each (column); one more column
            may have those that were taken for none.

    Returns:
        ``accuracy``; and means over the classes that have clips of ``macro_f1``; ``false_accept``, the share of the
        other classes' clips that are taken for the class; and ``false_reject``, the share of the class's clips that
        are not (Li et al. 2022, section 4.1).
    """
    right, clips, taken = np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0)[: len(confusion)]
    there = clips > 0
    others = np.maximum(clips.sum() - clips, 1)
    return {
        "accuracy": float(right.sum() / clips.sum()),
        "macro_f1": float((2 * right / np.maximum(clips + taken, 1))[there].mean()),
        "false_accept": float(((taken - right) / others)[there].mean()),
        "false_reject": float(((clips - right) / np.maximum(clips, 1))[there].mean()),
    }
