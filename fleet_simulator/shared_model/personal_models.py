"""After the last round: what the global model is worth to every device, and the model that the device makes of it.

Groups train and devices fine-tune by the same code as for a real fleet (Xu et al. 2025, algorithm 1).
"""

from __future__ import annotations

import math
from typing import Any

from edge_client.learning.personalisations.registry import personalisations
from fleet_protocol.personalisation import Schedule
from fleet_simulator.shared_model.tasks import Evaluate
from fleet_simulator.shared_model.virtual_fleet import VirtualFleet
from fleet_simulator.shared_model.workers import Pool

_DEVICES = 16  # of one task


def evaluate_devices(fleet: VirtualFleet, pool: Pool) -> list[dict[str, Any]]:
    """Return an entry for each device that has clips, in the order of their numbers; none where none are held out."""
    if not fleet.experiment.fleet.held_out:
        return []
    how, rounds = fleet.experiment.personal, fleet.experiment.rounds.count
    members = [int(one.device_id, 16) for one in fleet.candidates]
    making = personalisations()[how.name].groups
    if making is not None:
        planned = making({one.device_id: one.clips for one in fleet.candidates}, how.settings)
        rounds += _train_groups(fleet, pool, planned)
        groups = {index + 1: [int(one, 16) for one in group] for index, group in enumerate(planned.groups)}
    else:
        groups = {0: members}
    versions = fleet.state.own_versions
    local = fleet.local().settings if fleet.experiment.fleet.local_models else None
    tasks = [
        Evaluate(rounds, tuple(some), model, how, tuple(int(version) for version in versions[some]), local)
        for model, group in groups.items()
        for some in (group[start : start + _DEVICES] for start in range(0, len(group), _DEVICES))
    ]
    entries = [entry for part in pool.run(tasks) for entry in part]
    of_device = {device: model - 1 for model, group in groups.items() for device in group if model}
    for entry in entries:
        entry |= {key: None for key, value in entry.items() if isinstance(value, float) and math.isnan(value)}
        entry |= {"group": of_device[entry["device"]]} if of_device else {}
    return sorted(entries, key=lambda entry: int(entry["device"]))


def _train_groups(fleet: VirtualFleet, pool: Pool, planned: Schedule) -> int:
    """Let every group go on from the fleet's model among itself; return how many rounds that took."""
    state, layout = fleet.state, fleet.layout
    weights, server = dict.fromkeys(range(len(planned.groups)), state.weights), {}
    for index in range(len(planned.groups)):
        fleet.models.write(1 + index, layout.flatten(state.weights))
        server[index] = state.server
    for step, index in enumerate(planned.sequence):
        devices = [int(member, 16) for member in planned.groups[index]]
        round_id = fleet.experiment.rounds.count + 1 + step
        blocks = fleet.blocks(round_id, devices, 1 + index)
        trained = pool.run(blocks)
        weights[index], server[index], _ = fleet.aggregate(blocks, trained, weights[index], server[index])
        fleet.models.write(1 + index, layout.flatten(weights[index]))
    return len(planned.sequence)
