"""Which devices take part in a round: pure functions, by the name that a plan gives.

``dynamic`` is the selection of Xu et al. 2025: devices with few clips first, those with many once the loss has settled.
Doubles are computed afresh for every round from the devices that are there when it opens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fleet_protocol.arrays import Doubles
from fleet_protocol.messages import Choice
from fleet_protocol.plans import Value


@dataclass(frozen=True)
class Candidate:
    """A device that could take part.

    Attributes:
        device_id: names it; the order in which devices are given never matters.
        clips: D_k, its data size as last told; 0: it has not said.
        unseen_s: seconds since it was last heard of.
    """

    device_id: str
    clips: int = 0
    unseen_s: float = 0.0


@dataclass(frozen=True)
class History:
    """The finished rounds before this one.

    Attributes:
        rounds: r, how many there are.
        losses: their training losses, oldest first; rounds whose devices told none are left out.
    """

    rounds: int = 0
    losses: tuple[float, ...] = ()


def select(candidates: Sequence[Candidate], choice: Choice, history: History, seed: tuple[int, ...]) -> tuple[str, ...]:
    """Draw a round's devices without replacement, each next one by the probabilities of those that are left.

    Args:
        candidates: in any order.
        choice: the plan's selection, with every setting.
        history: the rounds so far.
        seed: the plan's and the round's number: the same ones draw the same devices.

    Returns:
        Identifiers in alphabetical order; none where no candidate was heard of lately.
    """
    limit = float(choice.settings["seen_within_s"])
    present = sorted(
        (candidate for candidate in candidates if not limit or candidate.unseen_s <= limit),
        key=lambda candidate: candidate.device_id,
    )
    if not present:
        return ()
    count = max(1, math.floor(float(choice.settings.get("fraction", 1.0)) * len(present) + 0.5))
    p = PROBABILITIES[choice.name](data_sizes(present), history, choice.settings)
    # Successive draws are an order of exponential waiting times with these rates (Efraimidis & Spirakis 2006).
    waiting = np.random.default_rng(seed).exponential(size=len(present)) / p
    return tuple(sorted(present[index].device_id for index in np.argsort(waiting, kind="stable")[:count]))


def data_sizes(candidates: Sequence[Candidate]) -> Doubles:
    """Return D_k, float64 [candidates], above 0; of devices that have not said it, the median of the others (or 1)."""
    told = np.array([candidate.clips for candidate in candidates], np.float64)
    known = told[told > 0]
    return np.where(told > 0, told, np.median(known) if len(known) else 1.0)


def equal(sizes: Doubles, _history: History, _settings: Mapping[str, Value]) -> Doubles:
    """P_k = 1 / N."""
    return np.full(len(sizes), 1.0 / len(sizes))


def size_proportional(sizes: Doubles, _history: History, _settings: Mapping[str, Value]) -> Doubles:
    """P_k = D_k / sum D, as FedProx draws its devices (Li et al. 2020)."""
    return np.asarray(sizes / sizes.sum())


def dynamic(sizes: Doubles, history: History, settings: Mapping[str, Value]) -> Doubles:
    """P_k = (1/D_k) / sum 1/D while r < R, D_k / sum D afterwards (Xu et al. 2025, section 3.1).

    R is the setting ``switch_round``, or where that is 0 the round after which the loss stopped falling.
    """
    fixed = int(settings["switch_round"])
    settled = history.rounds >= fixed if fixed else settled_after(history.losses, int(settings["patience"])) is not None
    return size_proportional(sizes if settled else 1.0 / sizes, history, settings)


def settled_after(losses: Sequence[float], patience: int) -> int | None:
    """Return after how many rounds the loss first had no new lowest value for ``patience`` rounds; None: not yet."""
    lowest, since = math.inf, 0
    for index, loss in enumerate(losses):
        since = 0 if loss < lowest else since + 1
        lowest = min(loss, lowest)
        if since >= patience:
            return index + 1
    return None


PROBABILITIES: dict[str, Callable[[Doubles, History, Mapping[str, Value]], Doubles]] = {
    "all": equal,
    "uniform": equal,
    "size_proportional": size_proportional,
    "dynamic": dynamic,
}
