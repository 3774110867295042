"""Attackers among the devices: what each rule of aggregation loses to them (rules: docs/methods.md, with their papers).

No paper has this table. LPA is FedMLAC's (Bai et al. 2025), whose own tests have wrong labels but no attackers. The
last rule is that of the default plans, with the quarantine that an aggregator has behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean

from fleet_protocol.methods.setting import Value
from fleet_simulator.experiment.faults import FaultsSection, attacking_devices
from fleet_simulator.experiment.sections import Experiment, FleetSection, ModelSection, RoundsSection
from studies.fleets import KEYWORDS, LPA, MEAN, Scale, keyword_clips
from studies.run import Figures, Run
from studies.study import Cell, Picture, Results, Series, Summary, Table, measured

# Published rules, set for the most attackers that there are, since they cannot know how many; and the default plan's.
DEFAULT = "screened mean (the default)"
RULES: Mapping[str, dict[str, Value]] = {
    "weighted mean": MEAN,
    "trimmed mean": {"name": "trimmed_mean", "trim": 0.3},
    "Multi-Krum": {"name": "multi_krum", "byzantine": 0.3, "keep": 0.5},
    "LPA": LPA | {"v_h": 0.3, "v_l": 0.1},
    DEFAULT: {"name": "screened_mean"},
}
# By the name in the table: kind, strength and the share of the rounds in which they are honest first.
LATE = "sign_flip by 1 from half-way"
ATTACKS: Mapping[str, tuple[str, float, float]] = {
    "sign_flip": ("sign_flip", 4.0, 0.0),
    "sign_flip by 1": ("sign_flip", 1.0, 0.0),
    LATE: ("sign_flip", 1.0, 0.5),
    "scaling": ("scaling", 10.0, 0.0),
    "scaling by 3.4e38": ("scaling", 3.4e38, 0.0),
    "noise": ("noise", 10.0, 0.0),
    "label_flip": ("label_flip", 1.0, 0.0),
    "false_clips": ("false_clips", 1.0, 0.0),
}
SHARE = 0.3  # of the devices
# Of `sign_flip`, for the picture of what grows with it; these runs have one seed, and half of the rounds.
STRENGTHS = (0.5, 1.0, 2.0, 4.0, 8.0)
STRENGTH_SEED = 1
# The mean of the honest devices alone: what the attackers' own clips are worth, which no rule gets back.
ALONE = "honest devices alone"
CAPPED_MEAN: dict[str, Value] = {"name": "weighted_mean"}


def runs(scale: Scale) -> list[Run]:
    """Return a run of every rule, attack and seed, of every rule without attackers, and of growing strengths."""
    base = _base(scale)
    faults = {"": FaultsSection()} | {
        name: FaultsSection(SHARE, kind, strength, round(honest * base.rounds.count))
        for name, (kind, strength, honest) in ATTACKS.items()
    }
    silent = {"silent": FaultsSection(SHARE, "silent")}
    found = [
        _run(base, _name(rule, name), rule, seed, fault)
        for seed in range(1, 6 if scale.full else 4)
        for rule in (*RULES, ALONE)
        for name, fault in (silent if rule == ALONE else faults).items()
    ]
    shorter = replace(base, rounds=replace(base.rounds, count=base.rounds.count // 2))
    strengths = {0.0: FaultsSection()} | {one: FaultsSection(SHARE, "sign_flip", one) for one in STRENGTHS}
    return found + [
        _run(shorter, _name(rule, strength), rule, STRENGTH_SEED, fault)
        for rule in RULES
        for strength, fault in strengths.items()
    ]


def _base(scale: Scale) -> Experiment:
    """Return the experiment that all runs are, but for rule, seed and faults."""
    return Experiment(
        keyword_clips(scale, speakers=None if scale.full else 240),
        FleetSection(devices=100 if scale.full else 20),
        ModelSection(scale.bundles(["crnn_tiny"], "--batch", "16", "--capacity", "12")["crnn_tiny"]),
        RoundsSection(
            count=200 if scale.full else 40,
            evaluate_every=10,
            local={"epochs": 1, "learning_rate": 0.1, "rehearsal": 0.0},
        ),
    )


def _run(base: Experiment, name: str, rule: str, seed: int, faults: FaultsSection) -> Run:
    aggregation = CAPPED_MEAN if rule == ALONE else RULES[rule]
    rounds = replace(base.rounds, seed=seed, quarantine=rule == DEFAULT, aggregation=aggregation)
    of_a_round = 0.1 if base.data.speakers else 0.8  # processor seconds
    return Run(name, seed, replace(base, rounds=rounds, faults=faults), cost_s=of_a_round * rounds.count)


def accuracy(figures: Figures) -> float:
    """Return the last accuracy, 0..1; that of guessing where the model came to be no numbers."""
    return 1 / len(KEYWORDS) if "diverged" in figures else float(figures["rounds"][-1]["accuracy"])


def summary(results: Results) -> Summary:
    """Return what rules lose to attackers, whom the quarantine keeps out, and what grows with an attack's strength."""
    columns = ["rule", "no attackers, %", "loss", *ATTACKS, "most beyond the honest alone"]
    strengths = ["rule", "none", *map(str, STRENGTHS)]
    caught = ["attack", "attackers", "kept out", "after rounds, least", "most", "honest devices kept out"]
    grown = {rule: [_loss_at(results, rule, strength) for strength in (0.0, *STRENGTHS)] for rule in RULES}
    tables = {
        "losses": Table("Loss to three attackers in ten, points", columns, _losses(results)),
        "quarantine": Table("The default's quarantine", caught, [_caught(results, one) for one in ("", LATE)]),
        "strengths": Table(
            "Loss to `sign_flip` by its strength, points", strengths, [[rule, *of] for rule, of in grown.items()]
        ),
    }
    lines = [Series(rule, strengths[1:], losses) for rule, losses in grown.items()]
    title = "Loss by the strength of an attack by three in ten devices, one seed"
    picture = Picture("lines", title, "strength of the attack", "loss, points", lines)
    return Summary(tables, {"strength": picture})


def _losses(results: Results) -> list[list[Cell]]:
    """Return points below the weighted mean without attackers, seed by seed."""
    clean = results.values(_name("weighted mean"), accuracy)

    def lost(rule: str, attack: str = "") -> dict[int, float]:
        found = results.values(_name(rule, attack), accuracy)
        return {seed: 100 * ((clean[seed] or 0.0) - (value or 0.0)) for seed, value in found.items()}

    least = lost(ALONE, "silent")
    rows: list[list[Cell]] = []
    for rule in RULES:
        to_attacks = [lost(rule, attack) for attack in ATTACKS]
        beyond = max(fmean(one.values()) for one in to_attacks) - fmean(least.values())
        cells = [measured(one) for one in (lost(rule), *to_attacks)]
        rows.append([rule, results.cell(_name(rule), accuracy), *cells, round(beyond, 1)])
    return [*rows, [ALONE, None, measured(least), *[None] * (len(ATTACKS) + 1)]]


def _caught(results: Results, attack: str) -> list[Cell]:
    """Return when the default's quarantine had the attackers, who are honest first, and which honest devices."""
    after: list[int] = []
    all_attackers = honest = 0
    name = _name(DEFAULT, attack)
    for seed, figures in zip(results.seeds(name), results.figures(name), strict=True):
        rounds = figures["rounds"]
        begins = round(ATTACKS[LATE][2] * rounds[-1]["round"])
        faults = FaultsSection(SHARE if attack else 0.0)
        attackers = attacking_devices(faults, rounds[0]["devices"], seed)
        caught = {device: entry["round"] for entry in rounds for device in entry.get("quarantined", ())}
        after += [caught[device] - begins for device in attackers if device in caught]
        honest += len(caught.keys() - attackers)
        all_attackers += len(attackers)
    return [attack or "none", all_attackers, len(after), min(after, default=None), max(after, default=None), honest]


def _loss_at(results: Results, rule: str, strength: float) -> float:
    """Return the points that a rule loses to attackers of a strength, below the weighted mean without any."""
    clean, (found,) = (results.figures(_name(*one)) for one in (("weighted mean", 0.0), (rule, strength)))
    return round(100 * (accuracy(clean[0]) - accuracy(found)), 1)


def _name(rule: str, attack: str | float = "") -> str:
    """Return the name of a rule's runs with an attack; ``""``: none. A number is a strength, of the shorter runs."""
    return f"{rule}, {attack or 'no attackers'}" if isinstance(attack, str) else f"{rule}, strength {attack:g}"
