"""Attackers among the devices: what each rule of aggregation loses to them (rules: docs/methods.md, with their papers).

No paper has this table. LPA is FedMLAC's (Bai et al. 2025), whose own tests have wrong labels but no attackers. The
last rule is that of the default plans, with the quarantine that an aggregator has behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from benchmarks.papers.keywords import KEYWORDS, keyword_clips
from benchmarks.papers.published import LPA, MEAN
from benchmarks.papers.report import Results, markdown_table, mean_and_spread
from benchmarks.papers.run import Figures, Run
from benchmarks.papers.scale import Scale
from fleet_protocol.setting import Value
from fleet_simulator.experiment.faults import FaultsSection
from fleet_simulator.experiment.sections import Experiment, FleetSection, ModelSection, RoundsSection

TITLE = "Attackers, and the rules that hold against them"

# Published rules, set for the most attackers that there are, since they cannot know how many; and the default plan's.
DEFAULT = "screened mean (the default)"
RULES: Mapping[str, dict[str, Value]] = {
    "weighted mean": MEAN,
    "trimmed mean": {"name": "trimmed_mean", "trim": 0.3},
    "Multi-Krum": {"name": "multi_krum", "byzantine": 0.3, "keep": 0.5},
    "LPA": LPA | {"v_h": 0.3, "v_l": 0.1},
    DEFAULT: {"name": "screened_mean"},
}
# By the name in the table.
ATTACKS: Mapping[str, tuple[str, float]] = {
    "sign_flip": ("sign_flip", 4.0),
    "sign_flip by 1": ("sign_flip", 1.0),
    "scaling": ("scaling", 10.0),
    "scaling by 3.4e38": ("scaling", 3.4e38),
    "noise": ("noise", 10.0),
    "label_flip": ("label_flip", 1.0),
    "false_clips": ("false_clips", 1.0),
}
RATES = (0.3,)
# The mean of the honest devices alone: what the attackers' own clips are worth, which no rule gets back.
ALONE = "honest devices alone"
CAPPED_MEAN: dict[str, Value] = {"name": "weighted_mean"}
_HOLDS = 2.0  # points


def runs(scale: Scale) -> list[Run]:
    """Return a run of every rule, attack, rate and seed, and of every rule without attackers."""
    data = keyword_clips(scale, speakers=None if scale.full else 240)
    model = ModelSection(scale.bundles(["crnn_tiny"], "--batch", "16", "--capacity", "12")["crnn_tiny"])
    fleet = FleetSection(devices=100 if scale.full else 20)
    faults = {"no attackers": FaultsSection()}
    faults |= {_name(name, rate): FaultsSection(rate, *attack) for name, attack in ATTACKS.items() for rate in RATES}
    silent = {_name("silent", rate): FaultsSection(rate, "silent") for rate in RATES}
    found = []
    for seed in range(1, 6 if scale.full else 4):
        for rule, settings in (*RULES.items(), (ALONE, CAPPED_MEAN)):
            rounds = RoundsSection(
                count=200 if scale.full else 40, seed=seed, evaluate_every=10, quarantine=rule == DEFAULT,
                local={"epochs": 1, "learning_rate": 0.1, "rehearsal": 0.0}, aggregation=settings,
            )  # fmt: skip
            found += [
                Run(f"{rule}, {name}", seed, Experiment(data, fleet, model, rounds, fault), cost_s=2.5)
                for name, fault in (silent if rule == ALONE else faults).items()
            ]
    return found


def section(results: Results) -> str:
    """Return a table for each attack, and which rules held."""
    clean = f"{DEFAULT}, no attackers"
    entry = results.figures(clean)[0]["rounds"][-1]
    alone = [f"{mean_and_spread(_lost_alone(results, rate))} at {rate:.0%}" for rate in RATES]
    lines = [
        f"{entry['devices']} devices with clips of ten keywords (`crnn_tiny`, FedAvg's training, {entry['round']}",
        "rounds, all devices in each); accuracy on speakers that no device has. The published rules are set for three",
        "attackers in ten, and count all clips. Losses are points below the weighted mean without attackers.",
        f"{_strengths()} [simulator.md](simulator.md) defines them. Weights of 3.4e38 are refused before any rule",
        f"sees them. Seeds {_and(results.seeds(clean))}. No paper has a table like this; FedMLAC's own tests of LPA",
        "have wrong labels, but no attackers. Behind the default stands the aggregator's quarantine.",
        "",
        "Attackers' own clips are lost whatever the rule. The mean of the honest devices alone loses",
        f"{_and(alone)}: that is the least that can be lost.",
        "",
    ]
    for attack in ATTACKS:
        lines += [f"### {_code(attack)}", _table(results, attack)]
    lines.append(_verdict(results))
    return "\n".join(lines)


def accuracy(figures: Figures) -> float:
    """Return the last accuracy, 0..1; that of guessing where the model came to be no numbers."""
    return 1 / len(KEYWORDS) if "diverged" in figures else float(figures["rounds"][-1]["accuracy"])


def losses(results: Results, rule: str, attack: str | None, rate: float = 0.0) -> list[float]:
    """Return the points that a rule loses to attackers, or without any, seed by seed: below the mean without any."""
    condition = "no attackers" if attack is None else _name(attack, rate)
    clean = results.values("weighted mean, no attackers", accuracy)
    return [100 * (a - b) for a, b in zip(clean, results.values(f"{rule}, {condition}", accuracy), strict=True)]


def _lost_alone(results: Results, rate: float) -> list[float]:
    return losses(results, ALONE, "silent", rate)


def _table(results: Results, attack: str) -> str:
    header = ["rule", "no attackers, %", "loss", *(f"loss at {rate:.0%}" for rate in RATES)]
    rows = []
    for rule in RULES:
        cells = [mean_and_spread(losses(results, rule, attack, rate)) for rate in RATES]
        clean = results.cell(f"{rule}, no attackers", accuracy)
        rows.append([rule, clean, mean_and_spread(losses(results, rule, None)), *cells])
    return markdown_table(header, rows)


def _verdict(results: Results) -> str:
    most = RATES[-1]
    least = fmean(_lost_alone(results, most))
    lines = [
        f"With {most:.0%} attackers a rule holds if it loses at most {_HOLDS:g} points more than the honest devices "
        "alone, and costs at most 1 point without attackers:",
        "",
    ]
    for rule in RULES:
        cost = fmean(losses(results, rule, None))
        lost = {attack: fmean(losses(results, rule, attack, most)) - least for attack in ATTACKS}
        held = [_code(attack) for attack, points in lost.items() if points <= _HOLDS]
        lines.append(f"- {rule}: costs {cost:.1f}; holds against {_and(held) if held else 'none'}")
    return "\n".join(lines)


def _strengths() -> str:
    named = [f"{_code(name)} (strength {strength:g})" for name, (_, strength) in ATTACKS.items() if strength != 1]
    return f"Attacks: {', '.join(named)}, `label_flip` and `false_clips`;"


def _code(attack: str) -> str:
    kind, *more = attack.split(" ", 1)
    return " ".join([f"`{kind}`", *more])


def _name(attack: str, rate: float) -> str:
    return f"{attack} {rate:.0%}"


def _and(items: list[str] | list[int]) -> str:
    words = [str(item) for item in items]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
