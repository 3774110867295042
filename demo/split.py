"""Gives speakers to the public set, the test and three devices, so that no speaker is in two parts.

Labels are dealt to the devices in overlapping runs. That, sizes and rounds are as in Gudur & Perepu 2021, table 1 and
section 3, scaled down to what is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from demo import DemoError
from edge_client.audio.recordings import Recordings, speaker_of
from edge_client.errors import RecordingError
from fleet_protocol.bundle.feature_settings import preset
from fleet_protocol.numbers.arrays import Doubles
from fleet_simulator.partition.splits import deal_groups

DEVICES = 3
KEYWORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
SOUNDS = (
    *("air_conditioner", "car_horn", "children_playing", "dog_bark", "drilling", "engine_idling", "gun_shot"),
    *("jackhammer", "siren", "street_music"),
)


ROUNDS, LEAST_ROUNDS = 8, 3
"""Rounds by default, and of the shortest schedule in which all new sounds appear. The paper has ten."""
# Clips of a label in the paper: in the public set; in a round of a device; of a new sound, at first and later.
_PUBLIC, _PER_ROUND, _ARRIVALS = 300, (200, 300), (400, 500)
# Before these of the rounds new sounds appear.
_NEW_SOUNDS = (3, 6)
LEAST_CLIPS = 5
"""A part with fewer clips of a label says nothing about it."""
_PUBLIC_SHARE, _TEST_SHARE = 0.3, 0.2
_MOST_TEST = 200
# What a device has beyond so many rounds' worth must not keep the other parts from getting theirs.
_MOST_ROUNDS = 2

Clips = dict[str, tuple[Path, ...]]


@dataclass(frozen=True)
class Deal:
    """Who knows what."""

    known: tuple[str, ...]  # Labels of the public set, in the paper's order or the alphabet's
    new: tuple[str, str]  # Labels that devices meet later: the first by devices 1 and 2, the second by device 2
    devices: tuple[tuple[str, ...], ...]  # Labels of each device that it knows from the start

    def owners(self, label: str) -> tuple[int, ...]:
        """Return the devices (0, 1, ...) that know a label from the start, or meet it later."""
        if label in self.new:
            return (0, 1) if label == self.new[0] else (1,)
        return tuple(device for device, labels in enumerate(self.devices) if label in labels)


def deal(labels: Sequence[str], new: Sequence[str] | None = None) -> Deal:
    """Deal labels to the devices in contiguous runs of which neighbours overlap.

    The paper's keywords overlap by two labels, its sounds by one; other labels as the keywords do. ``new`` are the two
    that devices meet later; None: the last two.

    Raises DemoError: fewer than four labels, or two new ones are not among them.
    """
    present = set(labels)
    if len(present) < 4:
        raise DemoError(
            f"at least 4 labels are needed, not {len(present)} ({', '.join(sorted(present)) or 'none'}); "
            "a label is a folder of recordings"
        )
    paper = next((known for known in (KEYWORDS, SOUNDS) if present <= set(known)), None)
    order = [label for label in paper or sorted(present) if label in present]
    chosen = tuple(order[-2:] if new is None else new)
    if len(chosen) != 2 or len(set(chosen) & present) != 2:
        raise DemoError(
            f"two different labels must be new, not {', '.join(chosen) or 'none'}; present: {', '.join(order)}"
        )
    known = tuple(label for label in order if label not in chosen)
    shared = 1 if paper is SOUNDS and len(known) >= 4 else 2
    places = len(known) + shared * (DEVICES - 1)
    runs: list[tuple[str, ...]] = []
    start = 0
    for device in range(DEVICES):
        end = start + (places + device) // DEVICES
        runs.append(known[start:end])
        start = end - shared
    return Deal(known, (chosen[0], chosen[1]), tuple(runs))


@dataclass(frozen=True)
class Arrival:
    """From a round on, a device (0, 1, ...) has these clips of a new label too; see :func:`new_sound_rounds`."""

    late: bool
    device: int
    label: str
    clips: tuple[Path, ...]


@dataclass(frozen=True)
class Split:
    """Which recordings go where; every list is disjoint from every other, by speaker where they are of two parts."""

    deal: Deal  # Who knows what
    public: Clips  # Public recordings, of every known label equally many
    test: Clips  # Held-out recordings of known and new labels
    training: tuple[Clips, ...]  # Clips of each device of the labels that it knows from the start
    arrivals: tuple[Arrival, ...]  # Which device meets what before which round
    per_round: tuple[int, int]  # Smallest and largest number of clips of a label that a device should take into a round

    def described(self, source: str) -> tuple[str, ...]:
        """Say in sentences what is done on what, and what the paper's sizes were."""
        low, high = self.per_round
        users = "; ".join(f"user {number}: {', '.join(own)}" for number, own in enumerate(self.deal.devices, 1))
        arrivals = "; ".join(
            f"{'later' if item.late else 'first'}, {len(item.clips)} of {item.label} for user {item.device + 1}"
            for item in self.arrivals
        )
        test = [len(clips) for clips in self.test.values()]
        return (
            f"Recordings: {source}. {users}. New on the way: {', '.join(self.deal.new)}.",
            "Sizes scaled down to what is there: public set "
            f"{len(self.public[self.deal.known[0]])} recordings of each label (paper: {_PUBLIC}); {low} to {high} "
            f"of a label in a round (paper: {_PER_ROUND[0]} to {_PER_ROUND[1]}); held out {min(test)} to "
            f"{max(test)}. New sounds: {arrivals} (paper: {_ARRIVALS[0]}, then {_ARRIVALS[1]}).",
            "No speaker, or other source, is in two of these: public set, held-out recordings, each device.",
        )


def new_sound_rounds(rounds: int) -> tuple[int, int]:
    """Return before which two rounds new sounds appear: 3 and 6 of 8, and in that proportion otherwise."""
    first = max(2, round(_NEW_SOUNDS[0] / ROUNDS * rounds))
    return first, min(rounds, max(first + 1, round(_NEW_SOUNDS[1] / ROUNDS * rounds)))


def read_labels(folder: Path) -> Clips:
    """Return the recordings of every label of a folder. Raises DemoError: the folder cannot be read."""
    recordings = Recordings(folder, preset("gudur"))
    try:
        return {label: tuple(recordings.clips(label)) for label in recordings.labels()}
    except RecordingError as error:
        raise DemoError(str(error)) from error


def split(clips: Mapping[str, Sequence[Path]], plan: Deal, seed: int) -> Split:
    """Give every speaker to the public set, the test or one device, so that each part gets its share of each label.

    Raises DemoError: some part would get too few clips of a label; names the label and the count.
    """
    labels = plan.known + plan.new
    parts = _assign(clips, labels, _targets(clips, plan), np.random.default_rng(seed))
    for label in labels:
        _require_enough(label, clips[label], parts, plan)
    public, test, *training = parts
    public_size = min(_PUBLIC, *(len(public[label]) for label in plan.known))
    largest = min(_PER_ROUND[1], *(len(training[d][label]) for label in plan.known for d in plan.owners(label)))
    first, second = plan.new
    half = len(training[0][first]) // 2
    return Split(
        deal=plan,
        public={label: public[label][:public_size] for label in plan.known},
        test={label: test[label][:_MOST_TEST] for label in labels},
        training=tuple({label: training[d][label] for label in plan.devices[d]} for d in range(DEVICES)),
        arrivals=(
            Arrival(False, 0, first, training[0][first][:half]),
            Arrival(False, 1, first, training[1][first]),
            Arrival(True, 0, first, training[0][first][half:]),
            Arrival(True, 1, second, training[1][second]),
        ),
        per_round=(max(1, largest * _PER_ROUND[0] // _PER_ROUND[1]), largest),
    )


def _targets(clips: Mapping[str, Sequence[Path]], plan: Deal) -> Doubles:
    """Return how many clips each part should get: float64 [public, test, devices...; known and new labels]."""
    labels = plan.known + plan.new
    targets = np.zeros((2 + DEVICES, len(labels)))
    for column, label in enumerate(labels):
        count = len(clips[label])
        if label in plan.known:
            targets[0, column] = min(_PUBLIC_SHARE * count, _PUBLIC)
        targets[1, column] = min(_TEST_SHARE * count, _MOST_TEST)
        owners = [2 + device for device in plan.owners(label)]
        rest = (count - targets[:2, column].sum()) / len(owners)
        targets[owners, column] = min(rest, _MOST_ROUNDS * _PER_ROUND[1])
    return targets


def _assign(
    clips: Mapping[str, Sequence[Path]], labels: Sequence[str], targets: Doubles, rng: np.random.Generator
) -> list[Clips]:
    """Return each part's clips, shuffled: speakers go, largest first, to the part that lacks most of what they have."""
    groups: dict[str, dict[str, list[Path]]] = {}
    for label in labels:
        for path in sorted(clips[label]):
            groups.setdefault(speaker_of(path), {}).setdefault(label, []).append(path)
    members = [groups[name] for name in sorted(groups)]
    counts = np.array([[len(group.get(label, ())) for label in labels] for group in members])
    parts: list[dict[str, list[Path]]] = [{label: [] for label in labels} for _ in targets]
    # Only a device can use more than its target.
    for group, part in zip(*deal_groups(counts, targets, len(targets) - DEVICES, rng), strict=True):
        for label, paths in members[group].items():
            parts[part][label] += paths
    return [
        {label: tuple(paths[i] for i in rng.permutation(len(paths))) for label, paths in part.items()} for part in parts
    ]


def _require_enough(label: str, paths: Sequence[Path], parts: Sequence[Clips], plan: Deal) -> None:
    """Refuse a split in which a part that needs a label got next to nothing of it."""
    needs = {f"device {device + 1}": (2 + device, LEAST_CLIPS) for device in plan.owners(label)}
    needs["the test"] = (1, LEAST_CLIPS)
    if label in plan.known:
        needs["the public set"] = (0, LEAST_CLIPS)
    elif label == plan.new[0]:
        needs["device 1"] = (2, 2 * LEAST_CLIPS)  # which gets them in two rounds
    for name, (part, least) in needs.items():
        if len(parts[part][label]) < least:
            speakers = len(set(map(speaker_of, paths)))
            raise DemoError(
                f"too few recordings of {label!r}: of {len(paths)} clips by {speakers} speakers, "
                f"{name} would get {len(parts[part][label])}, but needs {least}; add recordings, or by more speakers "
                "(no speaker may be in two parts), or take the label out of the folder"
            )
