"""What both sides know of a personalisation: its settings, and who makes groups that train among themselves."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass

from fleet_protocol.methods.group_balanced import GROUPS, Schedule, schedule
from fleet_protocol.methods.registry import Registry, discover
from fleet_protocol.methods.setting import Setting, Settings, Value

# Without `labels` and at a rate of 0.005 it is the published fine-tuning.
FINE_TUNING: dict[str, Setting] = {
    "epochs": Setting(10, "passes of the local fine-tuning over the device's clips", 1, 10_000),
    "labels": Setting(True, "pass over as many public samples by their labels beside the clips; false: clips alone"),
    "learning_rate": Setting(0.02, "of the local fine-tuning", 1e-8, 10.0),
    "momentum": Setting(0.9, "of the local fine-tuning", 0.0, 0.9999),
    "held_out": Setting(0.2, "share of the device's clips that it never trains on and judges its models by", 0.01, 0.5),
}


@dataclass(frozen=True)
class PersonalisationTerms:
    """A personalisation, as a plan can name it: how a device makes a model of its own of a round's result."""

    name: str
    # Settings that a plan can give it. ``held_out`` (the share of the clips that a device evaluates on) is handled for
    # every personalisation that has it
    settings: Settings
    _: KW_ONLY
    # Aggregator's part: (devices' numbers of clips by identifier, all above 0; values of the settings) -> the groups
    # that train rounds among themselves before. Pure: an interrupted step is computed again. None: there are no groups
    groups: Callable[[Mapping[str, float], Mapping[str, Value]], Schedule] | None = None
    about: str = ""  # What it does and costs, in plain words, for people who choose


def personalisations() -> Registry[PersonalisationTerms]:
    """Return the personalisations by name. Raises PluginError: an installed package's one cannot be used."""
    return discover("PERSONALISATION", "auricle.personalisations", PersonalisationTerms, table=PERSONALISATIONS)


GROUP_BALANCED = PersonalisationTerms(
    "group_balanced",
    GROUPS | FINE_TUNING,
    groups=schedule,
    about="Devices with about equally many clips train further among themselves. It costs more rounds.",
)
LOCAL = PersonalisationTerms(
    "local",
    FINE_TUNING,
    about="Every device fine-tunes the fleet's model on its own clips. It costs a second, shorter training.",
)
NONE = PersonalisationTerms("none", {}, about="Every device listens with the fleet's model.")

PERSONALISATIONS = (GROUP_BALANCED, LOCAL, NONE)
