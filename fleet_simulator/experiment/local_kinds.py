"""What uploads hold: the kinds of methods that virtual devices can do, and whether a round's uploads fit in memory."""

import math
import os

from aggregator_server.strategies import weight_sharing
from aggregator_server.strategies.plans import strategy
from aggregator_server.strategies.selection import selected_count
from edge_client.learning.methods import prototypes, zero_shot
from edge_client.learning.methods.local_method import LocalMethod, UnsharedMethod, local_methods
from fleet_protocol.bundle.bundle_file import Manifest
from fleet_simulator.errors import ExperimentError
from fleet_simulator.experiment.sections import Experiment


def method_of(name: str) -> LocalMethod | UnsharedMethod:
    """Return a local method. Raises ExperimentError: virtual devices cannot do it."""
    found = local_methods().get(name)
    if isinstance(found, LocalMethod) or (found and found.name in (prototypes.METHOD.name, zero_shot.METHOD.name)):
        return found
    raise ExperimentError(
        f"local method {name!r}: virtual devices do those that train a shared model, and "
        f"{prototypes.METHOD.name} and {zero_shot.METHOD.name}"
    )


def is_prototypes(method: LocalMethod | UnsharedMethod) -> bool:
    """Tell whether devices upload mean embeddings, and fit heads of their own."""
    return method.name == prototypes.METHOD.name


def is_scores(method: LocalMethod | UnsharedMethod) -> bool:
    """Tell whether devices upload scores of the public set, of models of their own."""
    return method.name == zero_shot.METHOD.name


def averages_blocks(experiment: Experiment) -> bool:
    """Return whether a mean over blocks of devices, and then over the blocks, is what the strategy makes of uploads.

    That is known of the project's own check and aggregation with the rule ``weighted_mean``, where no number of
    clips is capped by those of the other devices. Whatever another strategy does, it gets every upload.
    """
    chosen = strategy(experiment.strategy)
    ours = chosen.check is weight_sharing.check and chosen.aggregate is weight_sharing.aggregate
    rule = experiment.plan.aggregation
    return ours and rule.name == "weighted_mean" and not rule.settings["clips_cap"]


def require_memory(experiment: Experiment, manifest: Manifest, memory: int | None = None) -> None:
    """Check that a round's uploads fit in the bytes of memory (this machine's) where blocks cannot be averaged.

    Raises ExperimentError: they do not fit; says how large they are, and what would fit.
    """
    if not strategy(experiment.strategy).shares_model or averages_blocks(experiment):
        return
    plan, devices = experiment.plan, experiment.fleet.devices
    memory = machine_memory() if memory is None else memory
    weights = sum(math.prod(shape) for shape in manifest.weight_shapes.values())
    selected = selected_count(plan.selection, devices)
    needed, fitting = 4 * weights * selected, memory // (4 * weights)  # float32
    if needed > memory:
        raise ExperimentError(
            f"strategy = {experiment.strategy!r} with the rule {plan.aggregation.name!r} needs all uploads of a "
            f"round at once: {selected:,} devices x {weights:,} weights are {needed / 1e9:,.1f} GB, and this machine "
            f"has {memory / 1e9:,.1f} GB. Select fewer devices a round, at most {fitting:,}, such as by "
            f'selection = {{ name = "uniform", fraction = {fitting / devices:.2g} }}; or take the mean of all, '
            'aggregation = { name = "weighted_mean", clips_cap = 0.0 }, with a strategy that aggregates by the '
            "project's own function: it needs no more for more devices"
        )


def machine_memory() -> int:
    """Return the bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
