"""What devices listen with after rounds of the strategies that share a model, beside what they would have without any.

Twenty devices with four people each share ten words of Speech Commands, as log-mel pictures. Of every device's clips
20 % decide which model it listens with and other 20 % evaluate that; strangers are speakers that no device has. The
devices, the rounds and the fine-tuning are the product's own code. Rates were chosen with seeds 100 and 101.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.papers.keywords import keyword_clips
from benchmarks.papers.scale import Scale
from fleet_protocol.setting import Value
from fleet_simulator.experiment.sections import (
    BaselinesSection,
    Experiment,
    FleetSection,
    ModelSection,
    RoundsSection,
)
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.runs.progress import Silent
from fleet_simulator.shared_model.simulation import run

ROUNDS, EPOCHS, RATE = 40, 2, 0.1
PLUG_IN, OTHER = "crnn_tiny", "crnn_lite"
WITHOUT = {"alone": "alone", "public labels alone": "public", "own clips and public labels": "both"}
FORMER: dict[str, Value] = {"rehearsal_by": "opinion"}
LOCAL: dict[str, Value] = {"name": "local"}


@dataclass(frozen=True)
class Method:
    """A strategy, its local settings, what devices make of the result, and whether they have another network."""

    strategy: str
    local: Mapping[str, Value] = field(default_factory=dict)
    personal: Mapping[str, Value] = field(default_factory=dict)
    other: bool = False


METHODS = {
    "FedAvg, no rehearsal": Method("fedavg", {"rehearsal": 0.0}),
    "FedAvg, by opinion": Method("fedavg", FORMER),
    "FedAvg, by labels": Method("fedavg"),
    "FedAvg, by labels, personal on clips alone": Method(
        "fedavg", personal=LOCAL | {"labels": False, "learning_rate": 0.005}
    ),
    "FedAvg, by labels, personal": Method("fedavg", personal=LOCAL),
    "FedMLAC, by opinion, no warm-up": Method("fedmlac", FORMER | {"warm_up": 0}),
    "FedMLAC, by labels, no warm-up, personal": Method("fedmlac", {"warm_up": 0}, LOCAL),
    "FedMLAC, by labels, personal": Method("fedmlac", personal=LOCAL),
    "FedMLAC, by opinion, no warm-up, other network": Method("fedmlac", FORMER | {"warm_up": 0}, other=True),
    "FedMLAC, by labels, personal, other network": Method("fedmlac", personal=LOCAL, other=True),
}


def experiment(method: Method, bundles: Mapping[str, Path], scale: Scale, seed: int, *, baselines: bool) -> Experiment:
    """Return a method's run; ``baselines``: with what the devices would have without a fleet."""
    rounds = RoundsSection(
        count=ROUNDS, strategy=method.strategy, seed=seed, evaluate_every=ROUNDS,
        local={"epochs": EPOCHS, "learning_rate": RATE, **method.local},
    )  # fmt: skip
    return Experiment(
        keyword_clips(scale, speakers=200, test=0.5, public=0.1),
        FleetSection(devices=20, held_out=0.4),
        ModelSection(bundles[PLUG_IN], (bundles[OTHER],) if method.other else ()),
        rounds,
        personalisation=dict(method.personal),
        baselines=BaselinesSection(passes=ROUNDS * EPOCHS, learning_rate=RATE) if baselines else None,
    )


def figures(devices: Sequence[Mapping[str, Any]], kind: str, alone: Sequence[float]) -> dict[str, float]:
    """Return a kind of model's ``own``, ``strangers`` (means in %) and ``worse_than_alone`` (devices)."""
    own = [float(entry[f"{kind}_own"]) for entry in devices]
    return {
        "own": 100 * fmean(own),
        "strangers": 100 * fmean(float(entry[f"{kind}_strangers"]) for entry in devices),
        "worse_than_alone": sum(one < other for one, other in zip(own, alone, strict=True)),
    }


def of_seed(
    seed: int, methods: Sequence[str], bundles: Mapping[str, Path], scale: Scale, inputs: Inputs
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the rows of one fleet; those without a fleet come with the first method of each network."""
    alone: dict[bool, list[float]] = {}
    for name in methods:
        method = METHODS[name]
        what = experiment(method, bundles, scale, seed, baselines=method.other not in alone)
        with tempfile.TemporaryDirectory() as folder:
            found = run(what, Path(folder) / "run", 0, Silent(), inputs=inputs).devices
        devices = [entry for entry in found if entry["listening_own"] is not None]
        if method.other not in alone:
            alone[method.other] = [float(entry["alone_own"]) for entry in devices]
            for title, kind in WITHOUT.items():
                yield title + (", other network" if method.other else ""), figures(devices, kind, alone[method.other])
        yield name, figures(devices, "listening", alone[method.other])
