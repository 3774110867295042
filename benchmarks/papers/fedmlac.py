"""FedMLAC (Bai et al. 2025, tables 4 to 7, figures 2 and 3) against FedAvg, FedProx and FedOPT.

Every method gets the same clips, devices and rounds, and a learning rate of its own, chosen on seeds that are not
reported. A method is judged by the model that its devices share, on speakers or recordings that no device has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.papers.fedmlac_tables import tables
from benchmarks.papers.keywords import keyword_clips
from benchmarks.papers.published import LPA, MEAN
from benchmarks.papers.report import Results
from benchmarks.papers.run import Run
from benchmarks.papers.scale import Scale
from fleet_protocol.setting import Value
from fleet_simulator.experiment.data_section import DataSection
from fleet_simulator.experiment.faults import FaultsSection
from fleet_simulator.experiment.sections import Experiment, FleetSection, ModelSection, RoundsSection

TITLE = "FedMLAC: mutual learning and layer-wise pruning aggregation"
PAPER = "Bai et al. 2025, FedMLAC"

SEEDS = (1, 2, 3)
PASSES: dict[str, Value] = {"epochs": 2, "rehearsal": 0.0}
NO_PRUNING = LPA | {"v_h": 0.0, "v_l": 0.0}


@dataclass(frozen=True)
class Method:
    """A method and its tuned settings."""

    strategy: str
    local: Mapping[str, Value]
    aggregation: Mapping[str, Value] = field(default_factory=dict)


METHODS: Mapping[str, Method] = {
    "FedAvg": Method("fedavg", {"learning_rate": 0.1}, MEAN),
    "FedProx": Method("fedprox", {"learning_rate": 0.1, "proximal": 0.1}, MEAN),
    "FedOPT": Method("fedopt", {"learning_rate": 0.1}, MEAN | {"server_learning_rate": 0.01}),
    "FedMLAC": Method("fedmlac", {"learning_rate": 0.2, "own_share": 0.5, "warm_up": 0}, LPA),
}
# Without mutual learning the plug-in is trained by the labels, and pruned all the same.
PARTS = {
    "without LPA": replace(METHODS["FedMLAC"], aggregation=NO_PRUNING),
    "without mutual learning": Method("fedavg", {"learning_rate": 0.1}, LPA),
    "a = 0.7": replace(METHODS["FedMLAC"], local={"learning_rate": 0.2, "own_share": 0.7, "warm_up": 0}),
}
RATIOS, SNRS, WRONG, ALPHAS = (0.1, 0.2, 0.5, 1.0), (30, 20, 10), (0.1, 0.3, 0.5), (0.1, 0.3, 0.5, 1.0)
FIVE = ("crnn_tiny", "crnn_lite", "crnn_mid", "crnn_base", "crnn_deep")


@dataclass(frozen=True)
class Condition:
    """What the methods are compared under; the defaults are those of the paper's table 4."""

    data: DataSection
    fleet: FleetSection
    own: tuple[Path, ...]
    plug_in: Path
    rounds: int
    ratio: float = 0.2
    faults: FaultsSection = field(default_factory=FaultsSection)

    def experiment(self, method: Method, seed: int) -> Experiment:
        """Return a method's experiment."""
        mutual = method.strategy == "fedmlac"
        rounds = RoundsSection(
            count=self.rounds, strategy=method.strategy, seed=seed, evaluate_every=max(1, self.rounds // 10),
            local={**PASSES, **method.local}, aggregation=dict(method.aggregation),
            selection={"name": "uniform", "fraction": self.ratio},
        )  # fmt: skip
        model = ModelSection(self.plug_in, self.own if mutual else ())
        return Experiment(self.data, self.fleet, model, rounds, self.faults)


def runs(scale: Scale) -> list[Run]:
    """Return the runs of every method under every condition."""
    found = []
    for seed in SEEDS:
        for name, condition in _conditions(scale).items():
            if condition.ratio > RATIOS[1] and seed != SEEDS[0] and not scale.full:
                continue  # the longest runs by far
            found += [_run(scale, f"{method}, {name}", condition, METHODS[method], seed) for method in METHODS]
        for name, condition, method in _parts(scale):
            found.append(_run(scale, name, condition, method, seed))
    return found


def _run(scale: Scale, name: str, condition: Condition, method: Method, seed: int) -> Run:
    cost = condition.rounds * condition.ratio / 8 * (4.5 if method.strategy == "fedmlac" else 1.0)
    return Run(name, seed, condition.experiment(method, seed), cost_s=cost * (100 if scale.full else 1))


def section(results: Results) -> str:
    """Return the tables."""
    return tables(results, *_architectures(results.full))


def _architectures(full: bool) -> tuple[str, str]:
    """Return the plug-in and the own models of a homogeneous fleet; the paper's at full scale."""
    return ("crnn_lite", "crnn_base") if full else ("crnn_tiny", "crnn_lite")


def _bundles(scale: Scale) -> dict[str, Path]:
    return scale.bundles(FIVE, "--batch", "16", "--capacity", "12")


def keywords(scale: Scale) -> Condition:
    """Return the keywords' condition: devices by speakers, a homogeneous fleet, 20 % of the devices in a round."""
    bundles = _bundles(scale)
    data = keyword_clips(scale, speakers=None if scale.full else 240)
    plug_in, own = _architectures(scale.full)
    fleet = FleetSection(devices=1600 if scale.full else 50, held_out=0.2)
    return Condition(data, fleet, (bundles[own],), bundles[plug_in], 5000 if scale.full else 200)


def urban_sounds(scale: Scale, alpha: float) -> Condition:
    """Return Urban Sound's condition: fifty devices, each class dealt out by Dirichlet(alpha)."""
    base = keywords(scale)
    data = DataSection("urbansound8k", scale.data("urbansound8k_subset"), windows=2)
    fleet = FleetSection(devices=50, split="dirichlet", alpha=alpha, held_out=0.2)
    return replace(base, data=data, fleet=fleet, rounds=2000 if scale.full else 100)


def _conditions(scale: Scale) -> dict[str, Condition]:
    base = keywords(scale)
    # Half the rounds: with all devices, each is five times as long.
    found = {"clean": base}
    found |= {f"active {_percent(ratio)}": replace(base, ratio=ratio, rounds=base.rounds // 2) for ratio in RATIOS}
    found |= {f"{snr} dB": replace(base, data=replace(base.data, snr_db=float(snr))) for snr in SNRS}
    found |= {f"wrong {_percent(rate)}": replace(base, faults=FaultsSection(wrong_labels=rate)) for rate in WRONG}
    return found | {f"alpha {alpha:g}": urban_sounds(scale, alpha) for alpha in ALPHAS}


def _parts(scale: Scale) -> Sequence[tuple[str, Condition, Method]]:
    """Return what takes FedMLAC apart, and the fleets of several architectures."""
    base, bundles = keywords(scale), _bundles(scale)
    mixed = replace(base, own=tuple(bundles[name] for name in FIVE))
    own_architecture = replace(base, plug_in=base.own[0])
    found = [(f"FedMLAC, {name}", base, method) for name, method in PARTS.items()]
    found += [("FedMLAC, heterogeneous", mixed, METHODS["FedMLAC"])]
    found += [("FedMLAC, heterogeneous without LPA", mixed, PARTS["without LPA"])]
    return found + [
        (f"{name}, own architecture", own_architecture, method)
        for name, method in METHODS.items() if method.strategy != "fedmlac"
    ]  # fmt: skip


def _percent(share: float) -> str:
    return f"{share:.0%}"
