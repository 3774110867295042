"""The selections, and the draw of a round's devices by the probabilities P_k of the plan's selection.

Probabilities are computed afresh for every round from the devices that are there when it opens.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aggregator_server.aggregation.input_bounds import capped_sizes
from aggregator_server.limits import AWAY_S, SELECTION_CAP
from fleet_protocol.messages.rest import Choice
from fleet_protocol.methods.registry import Registry, discover
from fleet_protocol.methods.setting import Setting, Settings, Value
from fleet_protocol.numbers.arrays import Doubles

SEEN_WITHIN = Setting(
    AWAY_S, "seconds since a device was last heard of after which it is not selected; 0: no limit", 0.0, 3.2e7
)
FRACTION = Setting(0.2, "share of the devices that take part, at least one", 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device that could take part."""

    device_id: str  # Identifier; the order in which devices are given never matters
    clips: int = 0  # D_k, data size as last reported; 0: not reported
    unseen_s: float = 0.0  # Seconds since the device was last heard of


@dataclass(frozen=True)
class Columns:
    """Devices that could take part, as columns: a million of them take a tenth of the memory of as many objects."""

    device_ids: npt.NDArray[np.bytes_]  # in alphabetical order, bytes [devices]
    clips: Doubles  # D_k, float64 [devices]; 0: not reported
    unseen_s: Doubles  # seconds since each was last heard of, float64 [devices]

    @classmethod
    def of(cls, candidates: Sequence[Candidate]) -> "Columns":
        """Return devices as columns."""
        ordered = sorted(candidates, key=lambda candidate: candidate.device_id)
        return cls(
            np.array([candidate.device_id.encode() for candidate in ordered], np.bytes_),
            np.array([candidate.clips for candidate in ordered], np.float64),
            np.array([candidate.unseen_s for candidate in ordered], np.float64),
        )


@dataclass(frozen=True)
class History:
    """The finished rounds before this one."""

    rounds: int = 0  # Number r of these rounds
    losses: tuple[float, ...] = ()  # Training losses, oldest first; rounds whose devices reported none are left out


@dataclass(frozen=True)
class Selection:
    """A way to select a round's devices."""

    name: str
    # Settings that a plan can give it. ``seen_within_s`` and ``fraction`` (the share of the devices that take part; 1
    # without it) are handled for every selection that has them
    settings: Settings
    # (float64 [devices] data sizes D_k, all above 0; the rounds so far; values of the settings) -> P_k, float64
    # [devices], above 0, of any sum. Pure: the same inputs give the same devices
    probabilities: Callable[[Doubles, History, Mapping[str, Value]], Doubles]
    about: str = ""  # Who takes part, in plain words, for people who choose


def selections() -> Registry[Selection]:
    """Return every selection by name: those of this module, and those of installed packages.

    Raises PluginError: an installed package's selection cannot be used.
    """
    return discover("SELECTION", "auricle.selections", Selection, table=SELECTIONS)


def select(
    candidates: Sequence[Candidate] | Columns, choice: Choice, history: History, seed: tuple[int, ...]
) -> tuple[str, ...]:
    """Draw a round's devices without replacement, each next one by the probabilities of those that are left.

    ``choice``: the plan's selection, with every setting. ``seed``: the plan's and the round's number: the same ones
    draw the same devices. Returns identifiers in alphabetical order; none where no candidate was heard of lately.
    """
    columns = candidates if isinstance(candidates, Columns) else Columns.of(candidates)
    here = are_there(columns, choice)
    present = columns.device_ids[here]
    if not len(present):
        return ()
    count = selected_count(choice, len(present))
    p = selections()[choice.name].probabilities(data_sizes(columns.clips[here]), history, choice.settings)
    # Successive draws are an order of exponential waiting times with these rates (Efraimidis & Spirakis 2006).
    waiting = np.random.default_rng(seed).exponential(size=len(present)) / p
    chosen = np.sort(np.argsort(waiting, kind="stable")[:count])
    return tuple(identifier.decode() for identifier in present[chosen].tolist())


def are_there(columns: Columns, choice: Choice) -> npt.NDArray[np.bool_]:
    """Return which devices were heard of lately enough for a selection, bool [devices]."""
    limit = float(choice.settings.get("seen_within_s", 0.0))
    return columns.unseen_s <= limit if limit else np.ones(len(columns.clips), np.bool_)


def selected_count(choice: Choice, present: int) -> int:
    """Return how many of the devices that are present a selection takes: its ``fraction``, at least one."""
    return max(1, math.floor(float(choice.settings.get("fraction", 1.0)) * present + 0.5))


def data_sizes(reported: Doubles) -> Doubles:
    """Return D_k, float64 [devices], above 0; of devices that reported none (0), the median of the others (or 1).

    No device has more than ten times the median, whatever it reported: none can have itself drawn in every round.
    """
    known = reported[reported > 0]
    return capped_sizes(np.where(reported > 0, reported, np.median(known) if len(known) else 1.0), SELECTION_CAP)


def equal(sizes: Doubles, _history: History, _settings: Mapping[str, Value]) -> Doubles:
    """P_k = 1 / N, as FedAvg draws its devices (McMahan et al. 2017)."""
    return np.full(len(sizes), 1.0 / len(sizes))


def size_proportional(sizes: Doubles, _history: History, _settings: Mapping[str, Value]) -> Doubles:
    """P_k = D_k / sum D, as FedProx draws its devices (Li et al. 2020)."""
    return np.asarray(sizes / sizes.sum())


def dynamic(sizes: Doubles, history: History, settings: Mapping[str, Value]) -> Doubles:
    """P_k = (1/D_k) / sum 1/D while r < R, D_k / sum D afterwards (Xu et al. 2025, section 3.1).

    Devices with few clips come first; those with many once the loss has settled. R is the setting ``switch_round``, or
    where that is 0 the round after which the loss stopped falling.
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


SELECTIONS = (
    Selection(
        "all", {"seen_within_s": SEEN_WITHIN}, equal, about="All devices. The most is learned, and the most is sent."
    ),
    Selection(
        "uniform",
        {"fraction": FRACTION, "seen_within_s": SEEN_WITHIN},
        equal,
        about="A random share. Cheaper for the fleet; the others still learn from the result.",
    ),
    Selection(
        "size_proportional",
        {"fraction": FRACTION, "seen_within_s": SEEN_WITHIN},
        size_proportional,
        about="A random share, in which devices with many clips are more likely.",
    ),
    # Xu et al. 2025: three of ten devices a round; R is "near the first convergence", or where the loss stops falling.
    Selection(
        "dynamic",
        {
            "fraction": Setting(0.3, "share of the devices that take part, at least one", 0.0, 1.0),
            "switch_round": Setting(
                0,
                "R: done rounds after which much data counts for a device, not against it; 0: found from the loss",
                0,
                1_000_000,
            ),
            "patience": Setting(3, "rounds without a new lowest loss after which R is found", 1, 10_000),
            "seen_within_s": SEEN_WITHIN,
        },
        dynamic,
        about="A random share: at first devices with few clips are more likely, then, once the loss no longer falls, "
        "those with many.",
    ),
)
