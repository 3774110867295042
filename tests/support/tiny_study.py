"""A tiny table for tests: two experiments on made-up clips, and a function that notes each of its calls."""

from pathlib import Path

from fleet_simulator.experiment.sections import DataSection, Experiment, FleetSection, ModelSection, RoundsSection
from studies.in_short import in_short
from studies.pictures import over_rounds, share
from studies.report import Claim, claims_table, final_accuracy, markdown_table
from studies.run import Call, Run

TITLE = "Made-up clips"


def noted(calls: Path, bundle: Path, seed: int) -> dict:
    """Leave a line for every call."""
    assert bundle.is_file()
    with calls.open("a") as file:
        file.write(f"{seed}\n")
    if (calls.parent / "broken").exists():
        raise ValueError(f"seed {seed} is broken")
    return {"share": seed / 10}


class TinyTable:
    """What a table's module is, with the bundle and the folder of one test."""

    PAPER = "Somebody 2020"

    def __init__(self, bundle: Path, folder: Path, rounds: int = 2, title: str = TITLE):
        self.bundle, self.calls, self.rounds, self.TITLE = bundle, folder / "calls", rounds, title

    @property
    def pictures(self):
        name, shows = self.TITLE.lower().replace(" ", "-"), f"Accuracy over rounds: {self.TITLE}."
        return [over_rounds(name, shows, {"made-up": {"FedAvg": ("FedAvg", share("accuracy"))}}, "accuracy, %")]

    def runs(self, scale):
        del scale
        found = []
        for seed in (1, 2):
            experiment = Experiment(
                DataSection("synthetic", clips=300, classes=4, speakers=30, noise=0.5),
                FleetSection(devices=6),
                ModelSection(self.bundle),
                RoundsSection(count=self.rounds, seed=seed, local={"epochs": 1}),
            )
            found += [
                Run("FedAvg", seed, experiment),
                Run("the same again", seed, experiment),
                Run("counted", seed, Call(noted, {"calls": self.calls, "bundle": self.bundle, "seed": seed})),
            ]
        return found

    def section(self, results):
        rows = [["counted", results.cell("counted", lambda figures: figures["share"]), results.seeds("counted")]]
        rows.append(["FedAvg", results.cell("FedAvg", final_accuracy), len(results.figures("FedAvg")[0]["rounds"])])
        claim = Claim("a | b", "9", results.cell("counted", lambda figures: figures["share"]), "in part", "so\nit is")
        table = markdown_table(["run", "accuracy, %", "seeds"], rows)
        return "\n".join([in_short("Little", "is learned."), table, claims_table([claim])])
