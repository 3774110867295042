"""What a rule of aggregation is, and from a plan's aggregation part to the fleet's new weights.

Bounds come first, then the rule, then a server optimiser.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aggregator_server.aggregation.input_bounds import CLIPPED_CLIPS, CLIPPING, capped_sizes, clip_norms
from aggregator_server.aggregation.server_optimisers import SERVER_OPTIMISER, server_step
from aggregator_server.aggregation.updates import Updates
from aggregator_server.errors import AggregationError
from fleet_protocol.messages.rest import Choice
from fleet_protocol.methods.registry import Registry, discover
from fleet_protocol.methods.setting import Setting, Settings, complete
from fleet_protocol.numbers.arrays import Doubles, Floats
from fleet_protocol.numbers.tensors import Arrays

# Largest share of the devices that a rule may drop at either end: twice that leaves somebody, however many there are.
LESS_THAN_HALF = 0.49

# The values have the types that the rule's settings say.
Values = Mapping[str, Any]
Combined = tuple[Floats, dict[str, Any]]


@dataclass(frozen=True)
class Rule:
    """A rule that combines what devices uploaded."""

    name: str
    # Settings of its own. Every rule of weights also has those of the bounds in front and of the server optimiser
    # behind; one of its own by the same name replaces theirs
    settings: Settings
    # (uploads, float64 [devices] numbers of clips, values of the settings) -> the new weights, float32 [weights], and
    # JSON-ready details for people. Pure: an interrupted round is computed again. None: it combines what is no weights,
    # and its strategy calls it
    combine: Callable[[Updates, Doubles, Values], Combined] | None = None

    @property
    def all_settings(self) -> dict[str, Setting]:
        """Settings of the rule, of the bounds in front of it and of the server optimiser behind it."""
        around = {} if self.combine is None else CLIPPED_CLIPS | CLIPPING | SERVER_OPTIMISER
        return {**around, **self.settings}


def rules() -> Registry[Rule]:
    """Return every rule by name: those of this folder, and those of installed packages.

    Raises PluginError: an installed package's rule cannot be used.
    """
    return discover("RULE", "auricle.rules", Rule, package=__package__)


def weight_rules() -> tuple[str, ...]:
    """Return the names of the rules that combine weights.

    Raises PluginError: an installed package's rule cannot be used.
    """
    return tuple(sorted(name for name, rule in rules().items() if rule.combine is not None))


def aggregate_weights(
    choice: Choice, uploads: Updates, sizes: Doubles, previous: Arrays, state: Arrays
) -> tuple[Arrays, Arrays, dict[str, Any]]:
    """Combine the devices' weights as a plan says; the same bit for bit for the same inputs.

    Args:
        choice: the plan's aggregation part; settings that it leaves out have their defaults.
        uploads: one row of weights for each device, by device id; used up: ``clip_norm`` shortens rows in place.
        sizes: float64 [devices]: the number of clips behind every row.
        previous: the weights that the devices started from.
        state: what this returned after the fleet's last round; empty at first.

    Returns:
        The new weights (float32, of the layout's shapes); the new state, that of the server optimiser, empty without
        one; and JSON-ready details for people: ``clipped`` and what the rule reports, by device.

    Raises:
        PlanError: a setting is wrong.
        AggregationError: there is no such rule of weights, or it cannot combine these uploads.
    """
    rule = rules().get(choice.name)
    if rule is None or rule.combine is None:
        raise AggregationError(f"{choice.name!r} combines no weights; rules that do: {', '.join(weight_rules())}")
    values: Values = complete(f"aggregation method {rule.name!r}", rule.all_settings, choice.settings)
    start = uploads.layout.flatten(previous)
    details: dict[str, Any] = {}
    if values["clip_norm"]:
        details["clipped"] = clip_norms(uploads, start, values["clip_norm"])
    uploads = dataclasses.replace(uploads, start=start)
    combined, more = rule.combine(uploads, capped_sizes(sizes, values["clips_cap"]), values)
    details |= more
    if values["server_optimiser"] == "none":
        return uploads.layout.split(combined), {}, details
    rates = {name: values[f"server_{name}"] for name in ("learning_rate", "beta_1", "beta_2", "tau")}
    moved, state = server_step(values["server_optimiser"], start, combined, state, **rates)
    return uploads.layout.split(moved), state, details
