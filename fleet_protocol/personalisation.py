"""What both sides know of a personalisation: its settings, and the groups that train rounds among themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass

from fleet_protocol.registry import Registry, discover
from fleet_protocol.setting import Setting, Settings, Value

# Without `labels` and at a rate of 0.005 it is the published fine-tuning.
FINE_TUNING: dict[str, Setting] = {
    "epochs": Setting(10, "passes of the local fine-tuning over the device's clips", 1, 10_000),
    "labels": Setting(True, "pass over as many public samples by their labels beside the clips; false: clips alone"),
    "learning_rate": Setting(0.02, "of the local fine-tuning", 1e-8, 10.0),
    "momentum": Setting(0.9, "of the local fine-tuning", 0.0, 0.9999),
    "held_out": Setting(0.2, "share of the device's clips that it never trains on and judges its models by", 0.01, 0.5),
}


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


@dataclass(frozen=True)
class PersonalisationTerms:
    """A personalisation, as a plan can name it: how a device makes a model of its own of a round's result.

    Attributes:
        settings: Settings that a plan can give it. ``held_out`` (the share of the clips that a device evaluates on) is
            handled for every personalisation that has it.
        groups: Aggregator's part: (devices' numbers of clips by identifier, all above 0; values of the settings) ->
            the groups that train rounds among themselves before. Pure: an interrupted step is computed again. None:
            there are no groups.
        about: What it does and costs, in plain words, for people who choose.
    """

    name: str
    settings: Settings
    _: KW_ONLY
    groups: Callable[[Mapping[str, float], Mapping[str, Value]], Schedule] | None = None
    about: str = ""


def personalisations() -> Registry[PersonalisationTerms]:
    """Return the personalisations by name. Raises PluginError: an installed package's one cannot be used."""
    package = "fleet_protocol.personalisations"
    return discover(package, "PERSONALISATION", "auricle.personalisations", PersonalisationTerms)
