"""Regions: three regions of 100 virtual devices each beside one flat fleet of the same 300, by the same seeds.

Devices, clips, seeds, local training and test clips are the same in both. In the flat fleet one rule combines all
uploads. With regions, the rule combines those of each region, with a memory of its own, and then the regions' results,
each with the clips that counted for its weight, as aggregator_server/region does. Prints for each seed the accuracy of
the last round's model on clips of speakers that no device has, both, and their difference in points.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from aggregator_server.aggregation.contract import Contribution, RoundResult
from aggregator_server.aggregation.plausible import capped_sizes
from aggregator_server.strategies.weight_sharing import PREFIX
from benchmarks.command import BenchmarkError, Command, said
from fleet_protocol.messages import Update, Work
from fleet_protocol.tensors import Arrays
from fleet_simulator.experiment.file import load
from fleet_simulator.experiment.sections import Experiment
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.runs.progress import Progress
from fleet_simulator.simulation.aggregator import Aggregator, Uploads
from fleet_simulator.simulation.dealt_fleet import DealtFleet
from fleet_simulator.simulation.federation import Federation
from fleet_simulator.simulation.tasks import device_id
from fleet_simulator.simulation.workers import InThisProcess

_FIRST_REGION = 1 << 64  # identifiers of regions are no devices'


class TwoLevels(Aggregator):
    """An upper aggregator, and those of its regions: device n is in region n modulo their number."""

    def __init__(self, regions: int, flat: Aggregator, manifest: Any) -> None:  # noqa: ANN401  (a Manifest)
        super().__init__(flat.strategy.name, flat.plan, flat.state, manifest)
        self._kept: list[Arrays] = [{} for _ in range(regions)]

    def combined(
        self,
        work: Work,
        uploads: Uploads,
        weights: Arrays,
        kept: Arrays,
        **options: Any,  # noqa: ANN401
    ) -> tuple[RoundResult, dict[str, dict[str, Any]]]:
        """Combine the uploads of each region, and then those of the regions."""
        parts, all_dropped = [], dict[str, dict[str, Any]]()
        for region in range(len(self._kept)):
            own = [one for one in uploads.own if int(one.update.device_id, 16) % len(self._kept) == region]
            result, dropped = super().combined(work, Uploads(own), weights, self._kept[region], **options)
            self._kept[region] = result.state
            all_dropped |= dropped
            parts.append(_upload(region, work, own, result, dropped))
        result, _ = super().combined(work, Uploads(parts), weights, kept, **options)
        return result, all_dropped


def _upload(
    region: int, work: Work, own: Sequence[Contribution], result: RoundResult, dropped: dict[str, Any]
) -> Contribution:
    """Return what a region sends up; aggregator_server/region/contribution.py makes the same of rows."""
    clips = np.array([one.update.clips for one in own if one.update.device_id not in dropped], np.float64)
    counted = capped_sizes(clips, float(work.plan.aggregation.settings["clips_cap"]))
    update: Update = dataclasses.replace(
        own[0].update, device_id=device_id(_FIRST_REGION + region), clips=round(float(counted.sum())), reports=()
    )
    assert result.weights is not None
    arrays = {PREFIX + name: array for name, array in result.weights.items()}
    return Contribution(update, lambda: arrays)


def accuracy(experiment: Experiment, regions: int, inputs: Inputs) -> float:
    """Return the accuracy of the last round's model, 0..1; ``regions``: 0 for a flat fleet."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = DealtFleet(experiment, Path(folder), inputs, in_memory=True)
        fleet.setup = dataclasses.replace(fleet.setup, averages=False)  # each upload is its own device's
        federation = Federation(experiment, fleet)
        if regions:
            federation.aggregator = TwoLevels(regions, federation.aggregator, fleet.manifest)
        with InThisProcess(fleet.setup, fleet.shards, inputs) as fleet.pool:
            for round_id in range(1, experiment.rounds.count + 1):
                entry = federation.play(round_id, Progress())
    found: float = entry["accuracy"]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    command = Command("benchmarks.regions", __doc__)
    command.add_argument("--devices", type=int, default=300, help="of all regions together (300)")
    command.add_argument("--regions", type=int, default=3, help="(3)")
    command.add_argument("--rounds", type=int, default=20, help="(20)")
    command.add_argument("--seeds", type=int, default=3, help="how many, from 0 on (3)")
    command.add_argument("--clips", type=int, default=20, help="of a device, on average (20)")
    command.add_argument("--noise", type=float, default=1.5, help="of the clips, around their class (1.5)")
    command.add_argument("--rule", default="screened_mean", help="at both levels (screened_mean)")
    command.add_argument("--bundle", default="cnn1", help="ready bundle (cnn1)")

    def work(options: Any) -> dict[str, Any]:  # noqa: ANN401
        if not 1 <= options.regions <= options.devices // 2:
            raise BenchmarkError(f"--regions must be from 1 to half of --devices, not {options.regions}")
        rows = []
        for seed in range(options.seeds):
            began = time.process_time()
            document = {
                "data": {
                    "source": "synthetic",
                    "clips": round(options.devices * options.clips / 0.8),
                    "test": 0.2,
                    "speakers": max(200, options.devices * 2),
                    "classes": 10,
                    "noise": options.noise,
                },
                "fleet": {"devices": options.devices, "split": "dirichlet", "alpha": 0.5},
                "model": {"bundle": options.bundle},
                "rounds": {
                    "count": options.rounds,
                    "seed": seed,
                    "strategy": "fedavg",
                    "local": {"epochs": 8},
                    "evaluate_every": options.rounds,
                    "aggregation": {"name": options.rule},
                },
            }
            experiment = load(document)
            assert isinstance(experiment, Experiment)
            flat, two = (100 * accuracy(experiment, regions, Inputs()) for regions in (0, options.regions))
            spent = time.process_time() - began
            rows.append(said({"seed": seed, "flat": flat, "regions": two, "points": two - flat, "processor_s": spent}))
        figures = {"points": fmean(row["points"] for row in rows), "largest": max(abs(r["points"]) for r in rows)}
        said({"mean difference": figures["points"], "largest": figures["largest"]})
        return {"seeds": rows} | figures

    return command.run(work, arguments)


if __name__ == "__main__":
    sys.exit(main())
