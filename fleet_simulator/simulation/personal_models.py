"""After the last round: what the global model is worth to every device, and the model that the device makes of it.

Groups train and devices fine-tune by the same code as for a real fleet (Xu et al. 2025, algorithm 1).
"""

from __future__ import annotations

import math
from typing import Any

from edge_client.learning.personalisations.registry import personalisations
from fleet_protocol.messages import Choice
from fleet_protocol.personalisation import Schedule
from fleet_simulator.simulation.aggregator import Uploads
from fleet_simulator.simulation.dealt_fleet import DealtFleet
from fleet_simulator.simulation.federation import Federation
from fleet_simulator.simulation.tasks import Evaluate, device_id

_DEVICES = 16  # of one task


def evaluate_devices(federation: Federation) -> list[dict[str, Any]]:
    """Return an entry for each device that has clips, in the order of their numbers; none where none are held out."""
    fleet = federation.devices
    if not isinstance(fleet, DealtFleet) or not fleet.experiment.fleet.held_out:
        return []
    experiment, members = fleet.experiment, federation.members
    how, rounds = experiment.personal, experiment.rounds.count
    own, others = fleet.parted(members, federation.aggregator.plan)
    works = federation.opened(rounds)
    making = personalisations()[how.name].groups
    if making is not None:
        planned = making({device_id(one): int(fleet.clips[one]) for one in own}, how.settings)
        rounds += _train_groups(federation, fleet, planned)
        groups = {index + 1: [int(one, 16) for one in group] for index, group in enumerate(planned.groups)}
    else:
        groups = {0: own}
    local = federation.opened(rounds + 1) if experiment.fleet.local_models else (None, None)
    parts = [(works[0], model, how, group, local[0]) for model, group in groups.items()]
    # What a plan says of personalisation is for those with the fleet's network.
    parts.append((works[1], 0, Choice("none"), others, local[1]))
    tasks = []
    for work, model, how_to, group, next_round in parts:
        for start in range(0, len(group), _DEVICES):
            some = group[start : start + _DEVICES]
            tasks.append(Evaluate(rounds, work, tuple(some), model, how_to, fleet.versions(some), next_round))
    entries = [entry for part in fleet.pool.run(tasks) for entry in part]
    of_device = {device: model - 1 for model, group in groups.items() for device in group if model}
    for entry in entries:
        entry |= {key: None for key, value in entry.items() if isinstance(value, float) and math.isnan(value)}
        entry |= {"group": of_device[entry["device"]]} if of_device else {}
    return sorted(entries, key=lambda entry: int(entry["device"]))


def _train_groups(federation: Federation, fleet: DealtFleet, planned: Schedule) -> int:
    """Let every group go on from the fleet's model among itself; return how many rounds that took."""
    state, layout = federation.state.fleet, fleet.layout
    start = (state.weights, state.kept)
    present = dict.fromkeys(range(len(planned.groups)), start)
    for index in present:
        fleet.models.write(1 + index, layout.flatten(state.weights))
    for step, index in enumerate(planned.sequence):
        devices = [int(member, 16) for member in planned.groups[index]]
        work, _ = federation.opened(federation.experiment.rounds.count + 1 + step)
        blocks = fleet.blocks(work, devices, 1 + index)
        trained = fleet.pool.run(blocks)
        sent = [one for block, part in zip(blocks, trained, strict=True) for one in fleet.contributions(block, part)]
        uploads = Uploads(sent, averaged=fleet.setup.averages)
        result, _ = federation.aggregator.combined(work, uploads, *present[index])
        assert result.weights is not None
        present[index] = result.weights, result.state
        fleet.models.write(1 + index, layout.flatten(result.weights))
    return len(planned.sequence)
