"""The screen of a private round: which groups' sums stand out, where nobody sees the devices' own numbers.

    d_gc = sqrt(w_gc) || (m_gc - m_c) W ||      m_gc: mean of group g for class c, m_c: the groups' centre, W: whitening
    r_gc = d_gc / median_h d_hc                 w_gc: clips behind the mean: its scatter falls with their square root

A group stands out where the root mean square of its r over the classes is above ``FAR``, or one r above ``VERY_FAR``.
Below three groups nobody can say which one is the outlier. Where more than a third stand out, most honest devices would
be suspected: then nobody is, nor is anybody cleared, and the geometric median alone bounds what liars do.
"""

import numpy as np

from fleet_protocol.numbers.arrays import Bools, Doubles

FAR, VERY_FAR = 2.0, 4.0
_FEWEST = 3
MOST_OF_GROUPS = 1 / 3


def ratios(distances: Doubles) -> Doubles:
    """Return distances in medians of all groups' of that class, float64 [groups, classes]; NaN: not comparable.

    ``distances``: d, float64 [groups, classes]; NaN where a group has nothing of a class.
    """
    has = ~np.isnan(distances)
    enough = has.sum(axis=0) >= _FEWEST
    result = np.full(distances.shape, np.nan)
    if enough.any():
        medians = np.nanmedian(distances[:, enough], axis=0)
        result[:, enough] = distances[:, enough] / np.maximum(medians, 1e-9)
    return result


def stand_out(found: Doubles) -> Bools:
    """Tell which groups stand out by their :func:`ratios`, bool [groups]; none where too many would."""
    return np.zeros(len(found), np.bool_) if is_undecided(found) else _far(found)


def is_undecided(found: Doubles) -> bool:
    """Tell whether too many groups lie far for a judgement of any, by their :func:`ratios`."""
    return bool(_far(found).sum() > MOST_OF_GROUPS * len(found))


def _far(found: Doubles) -> Bools:
    known = ~np.isnan(found)
    values = np.where(known, found, 0.0)
    overall = np.sqrt((values**2).sum(axis=1) / np.maximum(known.sum(axis=1), 1))
    far: Bools = (overall > FAR) | (values.max(axis=1, initial=0.0) > VERY_FAR)
    return far
