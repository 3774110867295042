"""What goes wrong in a fleet: devices that attack it, and labels that are wrong; docs/simulator.md has the keys.

Attackers train like everybody else and then send something else; with ``label_flip`` they train on wrong labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fleet_protocol.numbers.arrays import Floats, Ints
from fleet_protocol.numbers.tensors import Arrays
from fleet_simulator.errors import require

_LABEL_ATTACKS = ("label_flip", "false_clips")
ATTACKS = ("sign_flip", "scaling", "noise", *_LABEL_ATTACKS, "silent")
UNSHARED_ATTACKS = (*_LABEL_ATTACKS, "silent")
USER_ATTACKS = ("poisoned_impressions", "noise")
_ALL_ATTACKS = tuple(dict.fromkeys((*ATTACKS, *USER_ATTACKS)))
MOST_CLIPS = 2**31 - 1  # that the protocol lets a device say
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class FaultsSection:
    """``[faults]``; left out, nothing is wrong."""

    attackers: float = 0.0
    attack: str = "sign_flip"
    strength: float = 1.0
    honest_rounds: int = 0
    wrong_labels: float = 0.0

    def __post_init__(self) -> None:
        require(0 <= self.attackers <= 1, "attackers", self.attackers, "must be from 0 to 1")
        require(self.attack in _ALL_ATTACKS, "attack", self.attack, f"must be {', '.join(_ALL_ATTACKS)}")
        require(0 <= self.strength <= LARGEST, "strength", self.strength, f"must be from 0 to {LARGEST:.4g}")
        require(self.honest_rounds >= 0, "honest_rounds", self.honest_rounds, "must be 0 or more")
        allowed = not self.honest_rounds or self.attack not in _LABEL_ATTACKS
        why = f"must be 0 with {self.attack}: the attackers' labels are wrong from the start on"
        require(allowed, "honest_rounds", self.honest_rounds, why)
        require(0 <= self.wrong_labels <= 1, "wrong_labels", self.wrong_labels, "must be from 0 to 1")

    def require_possible(self, possible: tuple[str, ...], whose: str) -> None:
        """Refuse an attack that devices of a strategy cannot make. Raises RefusedKeyError."""
        allowed = not self.attackers or self.attack in possible
        require(allowed, "attack", self.attack, f"{whose} takes {', '.join(possible)}")


def attacks(faults: FaultsSection, round_id: int) -> bool:
    """Return whether the attackers attack in a round."""
    return round_id > faults.honest_rounds


def attacking_devices(faults: FaultsSection, devices: int, seed: int) -> frozenset[int]:
    """Draw the attackers, rounded to the nearest number of devices."""
    count = round(faults.attackers * devices)
    return frozenset(int(device) for device in np.random.default_rng([seed, 4]).permutation(devices)[:count])


def taught_labels(labels: Ints, owned: Sequence[slice], faults: FaultsSection, classes: int, seed: int) -> Ints:
    """Return the labels as the devices have them, of the right ones, int64 [clips]."""
    taught, rng = labels.copy(), np.random.default_rng([seed, 5])
    if faults.wrong_labels:
        for rows in owned:
            wrong = rng.random(rows.stop - rows.start) < faults.wrong_labels
            others = (labels[rows] + rng.integers(1, classes, size=len(wrong))) % classes
            taught[rows] = np.where(wrong, others, labels[rows])
    if faults.attack in _LABEL_ATTACKS:
        for device in attacking_devices(faults, len(owned), seed):
            taught[owned[device]] = classes - 1 - taught[owned[device]]
    return taught


def attacked(faults: FaultsSection, start: Floats, trained: Floats, rng: np.random.Generator) -> Floats:
    """Return what an attacker sends that started from g and trained g + u, all float32 [weights]."""
    update, strength = trained - start, np.float32(faults.strength)
    if faults.attack == "sign_flip":
        return np.asarray(start - strength * update, np.float32)
    if faults.attack == "scaling":
        with np.errstate(over="ignore"):
            return np.clip(np.asarray(start + strength * update, np.float32), -LARGEST, LARGEST)
    if faults.attack == "silent":
        return np.full_like(trained, np.nan)
    if faults.attack == "noise":
        size = strength * np.float32(np.sqrt(np.mean(np.square(update, dtype=np.float64))))
        return np.asarray(start + size * rng.standard_normal(len(start), np.float32), np.float32)
    return trained


def poisoned(faults: FaultsSection, arrays: Arrays, known: int, rng: np.random.Generator) -> Arrays:
    """Return an attacker's upload: rows of new sounds, from ``known`` on, describe other ones."""
    changed, strength = dict(arrays), np.float32(faults.strength)
    names = [name for name in ("impressions", "profiles", "prototypes") if name in arrays]
    reports = len(arrays[names[0]]) - known
    others = rng.integers(known, size=reports) if known else np.zeros(0, np.int64)
    for name in names:
        described = arrays[name].copy()
        if faults.attack == "noise":
            size = strength * np.float32(np.sqrt(np.mean(np.square(described[known:], dtype=np.float64))))
            described[known:] = size * rng.standard_normal(described[known:].shape, np.float32)
        elif faults.attack == "poisoned_impressions" and known:
            described[known:] += strength * (described[others] - described[known:])
        changed[name] = described
    return changed
