"""Deals people's clips: some to the fleet's public set, some to nobody (strangers), the others to devices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.gain.embeddings import WORDS
from fleet_protocol.arrays import Ints


@dataclass(frozen=True)
class Dealt:
    """Who has which clips, as rows of the corpus.

    Attributes:
        public: of the public set; only words that the fleet starts with.
        strangers: by people whom no device and no public set knows.
        devices: of each device, to learn from.
        held_out: of each device, by the same people, to be judged on.
        new: words that the fleet does not start with.
    """

    public: Ints
    strangers: Ints
    devices: tuple[Ints, ...]
    held_out: tuple[Ints, ...]
    new: tuple[str, ...]

    @property
    def known(self) -> tuple[str, ...]:
        """Words that the fleet starts with."""
        return tuple(word for word in WORDS if word not in self.new)


@dataclass(frozen=True)
class Fleet:
    """How a fleet is dealt.

    Attributes:
        name: in the results.
        devices: how many.
        clips: of each device, to learn from.
        held_out: of each device, to be judged on. Where there are too few clips for both, a third is held out.
        new: words that only some devices were taught, and no public set has.
        taught: share of the devices that were taught the new words.
        public: share of the people whose clips are public.
        strangers: share of the people whom nobody knows.
    """

    name: str
    devices: int = 40
    clips: int = 40
    held_out: int = 20
    new: tuple[str, ...] = ()
    taught: float = 0.2
    public: float = 0.08
    strangers: float = 0.15


def deal(fleet: Fleet, words: NDArray[np.str_], speakers: NDArray[np.str_], seed: int) -> Dealt:
    """Deal whole people out: each device hears a household of them.

    Args:
        fleet: what to deal.
        words: of every clip.
        speakers: of every clip.
        seed: of the order of people and clips.
    """
    rng = np.random.default_rng([seed, 5])
    people = rng.permutation(np.unique(speakers))
    rows = [rng.permutation(np.flatnonzero(speakers == person)) for person in people]
    counts = np.cumsum([len(part) for part in rows])
    first, second = np.searchsorted(counts, [fleet.public * counts[-1], (fleet.public + fleet.strangers) * counts[-1]])
    public, strangers = np.concatenate(rows[:first]), np.concatenate(rows[first:second])
    households: list[list[Ints]] = [[] for _ in range(fleet.devices)]
    for part in sorted(rows[second:], key=len, reverse=True):  # the largest to whoever has the fewest
        min(households, key=lambda household: sum(map(len, household))).append(part)
    is_new = np.isin(words, fleet.new)
    devices, held_out = [], []
    for number, household in enumerate(households):
        clips = rng.permutation(np.concatenate(household))
        if number >= fleet.taught * fleet.devices:
            clips = clips[~is_new[clips]]
        train = min(fleet.clips, len(clips) * 2 // 3)
        devices.append(clips[:train])
        held_out.append(clips[train : train + fleet.held_out])
    return Dealt(public[~is_new[public]], strangers, tuple(devices), tuple(held_out), fleet.new)
