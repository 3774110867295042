"""Attackers among the devices: what each rule of aggregation loses to them (rules: docs/methods.md, with their papers).

No paper has this table. LPA is FedMLAC's (Bai et al. 2025), whose own tests have wrong labels but no attackers; the
others are what it has to be compared with.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.papers.keywords import KEYWORDS, keyword_clips
from benchmarks.papers.report import Results, markdown_table, mean_and_spread
from benchmarks.papers.run import Figures, Run
from benchmarks.papers.scale import Scale
from fleet_protocol.setting import Value
from fleet_simulator.experiment.faults import FaultsSection
from fleet_simulator.experiment.sections import Experiment, FleetSection, ModelSection, RoundsSection

TITLE = "Attackers, and the rules that hold against them"

# Every rule is set for the most attackers that there are, since it cannot know how many.
RULES: Mapping[str, dict[str, Value]] = {
    "weighted mean": {"name": "weighted_mean"},
    "mean, norms clipped": {"name": "weighted_mean", "clip_norm": 1.0},
    "median": {"name": "median"},
    "trimmed mean": {"name": "trimmed_mean", "trim": 0.3},
    "Krum": {"name": "krum", "byzantine": 0.3},
    "Multi-Krum": {"name": "multi_krum", "byzantine": 0.3, "keep": 0.5},
    "LPA": {"name": "lpa", "v_h": 0.3, "v_l": 0.1},
}
ATTACKS = {"sign_flip": 4.0, "scaling": 10.0, "noise": 10.0, "label_flip": 1.0}
RATES = (0.1, 0.2, 0.3)
_HOLDS = 3.0  # points


def runs(scale: Scale) -> list[Run]:
    """Return a run of every rule, attack, rate and seed, and of every rule without attackers."""
    data = keyword_clips(scale, speakers=None if scale.full else 240)
    model = ModelSection(scale.bundles(["crnn_tiny"], "--batch", "16", "--capacity", "12")["crnn_tiny"])
    fleet = FleetSection(devices=100 if scale.full else 20)
    faults = {"no attackers": FaultsSection()}
    faults |= {_name(attack, rate): FaultsSection(rate, attack, strength)
               for attack, strength in ATTACKS.items() for rate in RATES}  # fmt: skip
    found = []
    for seed in range(1, 6 if scale.full else 4):
        for rule, settings in RULES.items():
            rounds = RoundsSection(
                count=200 if scale.full else 40, seed=seed, evaluate_every=10,
                local={"epochs": 1, "learning_rate": 0.1, "rehearsal": 0.0}, aggregation=settings,
            )  # fmt: skip
            found += [
                Run(f"{rule}, {name}", seed, Experiment(data, fleet, model, rounds, fault), cost_s=2.5)
                for name, fault in faults.items()
            ]
    return found


def section(results: Results) -> str:
    """Return a table for each attack, and which rules held."""
    seeds = results.seeds("LPA, no attackers")
    entry = results.figures("LPA, no attackers")[0]["rounds"][-1]
    attacks = ", ".join(f"`{attack}` (strength {strength:g})" for attack, strength in ATTACKS.items())
    lines = [
        f"{entry['devices']} devices with clips of ten keywords (`crnn_tiny`, FedAvg's training, {entry['round']}",
        "rounds, all devices in each); accuracy on speakers that no device has. Every rule is set for three attackers",
        f"in ten. Attacks: {attacks}; [simulator.md](simulator.md) defines them. Seeds {_and(seeds)}. No paper has a",
        "table like this; FedMLAC's own tests of LPA have wrong labels, but no attackers.",
        "",
    ]
    for attack in ATTACKS:
        lines += [f"### `{attack}`", _table(results, attack)]
    lines.append(_verdict(results))
    return "\n".join(lines)


def accuracy(figures: Figures) -> float:
    """Return the last accuracy, 0..1; that of guessing where the model came to be no numbers."""
    return 1 / len(KEYWORDS) if "diverged" in figures else float(figures["rounds"][-1]["accuracy"])


def losses(results: Results, rule: str, attack: str, rate: float) -> list[float]:
    """Return the points that a rule loses to attackers, seed by seed."""
    clean = results.values(f"{rule}, no attackers", accuracy)
    return [
        100 * (a - b) for a, b in zip(clean, results.values(f"{rule}, {_name(attack, rate)}", accuracy), strict=True)
    ]


def _table(results: Results, attack: str) -> str:
    header = ["rule", "no attackers, %", *(f"loss at {rate:.0%}" for rate in RATES)]
    rows = []
    for rule in RULES:
        cells = [mean_and_spread(losses(results, rule, attack, rate)) for rate in RATES]
        rows.append([rule, results.cell(f"{rule}, no attackers", accuracy), *cells])
    return markdown_table(header, rows)


def _verdict(results: Results) -> str:
    most, lines = RATES[-1], [f"With {RATES[-1]:.0%} attackers a rule holds if it loses at most {_HOLDS:g} points:", ""]
    for rule in RULES:
        lost = {attack: losses(results, rule, attack, most) for attack in ATTACKS}
        held = [f"`{attack}`" for attack, points in lost.items() if sum(points) / len(points) <= _HOLDS]
        lines.append(f"- {rule}: {_and(held) if held else 'against none'}")
    return "\n".join(lines)


def _name(attack: str, rate: float) -> str:
    return f"{attack} {rate:.0%}"


def _and(items: list[str] | list[int]) -> str:
    words = [str(item) for item in items]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
