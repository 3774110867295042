"""The rounds that groups of devices train among themselves, where a plan's personalisation has groups."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """The groups of one phase of personalisation, in the order in which they train."""

    groups: tuple[tuple[str, ...], ...]  # Devices of each group, in alphabetical order
    rounds: tuple[int, ...]  # Number of rounds that each group trains among itself

    @property
    def sequence(self) -> tuple[int, ...]:
        """The group of every round, in order: a group is done with before the next one begins."""
        return tuple(index for index, count in enumerate(self.rounds) for _ in range(count))

    def group_of(self, device_id: str) -> int | None:
        """Return a device's group; None for one that joined later."""
        return next((index for index, members in enumerate(self.groups) if device_id in members), None)
