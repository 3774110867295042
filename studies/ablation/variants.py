"""The recommended plan and what is exchanged in it, with the settings that each variant's tuning chose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product

from fleet_protocol.setting import Value
from fleet_simulator.experiment.faults import FaultsSection

SEEDS, TUNING_SEEDS = (1, 2, 3), (100, 101)
ATTACKERS = FaultsSection(0.2, "sign_flip", 4.0)
SCREENED: dict[str, Value] = {"name": "screened_mean"}
LOCAL: dict[str, Value] = {"name": "local"}
FINE_TUNING = 20  # ten passes over own clips, and as many public ones
BATCHES = 3  # of a pass over some forty clips, which are what a method counts that counts steps


@dataclass(frozen=True)
class Trial:
    """What is tuned."""

    rate: float
    passes: int

    def __str__(self) -> str:
        return f"{self.rate:g}, {self.passes}"


TRIALS = [Trial(rate, passes) for passes, rate in product((2, 4), (0.05, 0.1, 0.2, 0.3))]


@dataclass(frozen=True)
class Variant:
    """The plan with one part exchanged.

    Attributes:
        strategy: its local method.
        local: settings of that.
        aggregation: rule and settings.
        selection: which devices take part; empty: all.
        personal: what devices make of the result; empty: nothing.
        each_pass: clips trained on for each clip of a device in a pass: rehearsal takes a public one for each, and two
            models take each twice.
        each_round: the same, beyond the passes of a round.
        first: the same, before a device's first round.
    """

    strategy: str = "fedavg"
    local: Mapping[str, Value] = field(default_factory=dict)
    aggregation: Mapping[str, Value] = field(default_factory=lambda: SCREENED)
    selection: Mapping[str, Value] = field(default_factory=dict)
    personal: Mapping[str, Value] = field(default_factory=lambda: LOCAL)
    each_pass: float = 2.0
    each_round: float = 0.0
    first: float = 0.0

    def rounds(self, passes: int, budget: float) -> int:
        """Return how many rounds train on ``budget`` clips for each clip of a device."""
        left = budget - self.first - (FINE_TUNING if self.personal else 0.0)
        share = float(self.selection.get("fraction", 1.0))
        return max(1, round(left / share / (self.each_pass * passes + self.each_round)))


PLAN = "the plan"
VARIANTS = {
    PLAN: Variant(),
    "a trimmed mean": Variant(aggregation={"name": "trimmed_mean", "trim": 0.2}),
    "a weighted mean": Variant(aggregation={"name": "weighted_mean"}),
    "LPA": Variant(aggregation={"name": "lpa"}),
    "rehearsal by the fleet's opinion": Variant(local={"rehearsal_by": "opinion"}),
    "no rehearsal": Variant(local={"rehearsal": 0.0}, each_pass=1.0),
    "no personalisation": Variant(personal={}),
    "user-invariant targets": Variant("fedkws_ui", {"adaptive": False, "private_epochs": 2}, each_round=2.0),
    # Large devices take more steps, of fuller batches.
    "adaptive local steps": Variant(
        "fedkws_ui", {"smoothing": 0.0, "adversarial": 0.0, "private_epochs": 0}, each_pass=2.35
    ),
    "mutual learning, warmed up": Variant("fedmlac", each_pass=4.0, first=30.0),
    "three in ten devices, drawn evenly": Variant(selection={"name": "uniform", "fraction": 0.3}),
    # In the end it draws the large devices, most of the time.
    "three in ten devices, drawn dynamically": Variant(selection={"name": "dynamic", "fraction": 0.3}, each_pass=2.2),
}
RULES = (PLAN, "a trimmed mean", "a weighted mean", "LPA")
# The best of the tuning trials: learning rate and passes in a round.
CHOSEN = {
    PLAN: Trial(0.2, 2),
    "a trimmed mean": Trial(0.3, 2),
    "a weighted mean": Trial(0.3, 2),
    "LPA": Trial(0.2, 2),
    "rehearsal by the fleet's opinion": Trial(0.3, 4),
    "no rehearsal": Trial(0.3, 4),
    "no personalisation": Trial(0.3, 2),
    "user-invariant targets": Trial(0.3, 2),
    "adaptive local steps": Trial(0.2, 2),
    "mutual learning, warmed up": Trial(0.2, 4),
    "three in ten devices, drawn evenly": Trial(0.1, 2),
    "three in ten devices, drawn dynamically": Trial(0.1, 2),
}
