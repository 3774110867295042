"""A tiny study for tests: two experiments on made-up clips, and a function that notes each of its calls."""

from pathlib import Path

from fleet_simulator.experiment.sections import DataSection, Experiment, FleetSection, ModelSection, RoundsSection
from studies.fleets import Scale
from studies.render import shown
from studies.run import Call, Outcome, Run
from studies.study import Picture, Summary, Table, results_of, stored


def noted(calls: Path, bundle: Path, seed: int) -> dict:
    """Leave a line for every call."""
    assert bundle.is_file()
    with calls.open("a") as file:
        file.write(f"{seed}\n")
    if (calls.parent / "broken").exists():
        raise ValueError(f"seed {seed} is broken")
    return {"share": seed / 10}


def same_as_tracked(name: str, found: Summary, by_hand: set[str], varying: set[str] = frozenset()) -> None:
    """Check that what runs come to, of made-up figures too, has the tables and pictures of a study's results.json.

    ``by_hand``: ids of the tables that no run makes; ``varying``: of those whose rows depend on the figures.
    """
    tracked = stored(name)
    assert set(tracked["tables"]) == set(found.tables) | by_hand
    for key, table in found.tables.items():
        there = tracked["tables"][key]
        assert (list(table.columns), table.title, table.digits) == (there["columns"], there["title"], there["digits"])
        if key not in varying:
            assert [row[0] for row in table.rows] == [row[0] for row in there["rows"]]
    for key in {*found.pictures, *tracked["pictures"]}:
        there, ours = tracked["pictures"][key], found.pictures[key]
        assert [(one["name"], one["panel"]) for one in there["series"]] == [(s.name, s.panel) for s in ours.series]


def rows_of(found: Summary) -> dict[str, dict[str, list[str]]]:
    """Return the rows of each table by their first cells, as they are shown."""
    return {key: {row[0]: [shown(cell) for cell in row[1:]] for row in one.rows} for key, one in found.tables.items()}


class NoTraining(Scale):
    """A scale whose data and bundles are stand-ins, for runs that nobody does."""

    def data(self, name):
        path = self.output / name
        path.touch()
        return path

    def bundles(self, architectures, *options):
        paths = {name: self.output / f"{name}.auricle" for name in architectures}
        for name, path in paths.items():
            path.write_text(name)
        return paths


def made_up(run) -> dict:
    """Return figures such as every kind of run has."""
    accuracy = 0.9 if "FedMLAC" in run.name or "LPA" in run.name else 0.5
    device = {"device": 0, "clips": 3, "global": 0.5, "own": 0.4, "own_test": None}
    kinds = {"alone": 0.4, "public": 0.3, "both": 0.5, "listening": accuracy, "guarded": 0.7, "local": accuracy - 0.1}
    for kind, right in kinds.items():
        device |= {f"{kind}_own": right, f"{kind}_strangers": right - run.seed / 100}
    other = device | {"own_test": 0.2}
    entry = {"round": 1, "devices": 9, "accuracy": accuracy + run.seed / 100, "macro_f1": accuracy, "samples": 4_000}
    if run.name.startswith("visited often"):
        entry |= {"public": 0.5} | {key: device[key] for key in device if key.startswith(("local_", "listening_"))}
    return {"rounds": [entry], "devices": [device, other], "own": 0.6, "strangers": 0.55}


def summary_of(study, folder: Path, change=lambda run, found: found) -> Summary:
    """Return what a study makes of made-up figures, after ``change`` (run, figures); no run is asked for twice."""
    scale = NoTraining(False, folder)
    runs = study.runs(scale)
    assert len({(run.name, run.seed) for run in runs}) == len(runs)
    assert {run.digest for run in runs} == {run.digest for run in study.runs(scale)}
    outcomes = [(run, Outcome(change(run, made_up(run)), 0.0, 1.0, {})) for run in runs]
    return study.summary(results_of(outcomes))


def tiny_experiment(bundle: Path, noise: float = 0.5, **rounds) -> Experiment:
    """An experiment of six devices on made-up clips."""
    data = DataSection("synthetic", clips=300, classes=4, speakers=30, noise=noise)
    return Experiment(data, FleetSection(devices=6), ModelSection(bundle), RoundsSection(**rounds))


class TinyStudy:
    """What a study's module is, with the bundle and the folder of one test."""

    def __init__(self, bundle: Path, folder: Path, rounds: int = 2):
        self.bundle, self.calls, self.rounds = bundle, folder / "calls", rounds

    def runs(self, scale):
        del scale
        found = []
        for seed in (1, 2):
            experiment = tiny_experiment(self.bundle, count=self.rounds, seed=seed, local={"epochs": 1})
            found += [Run(name, seed, experiment) for name in ("FedAvg", "the same again")]
            found.append(Run("counted", seed, Call(noted, {"calls": self.calls, "bundle": self.bundle, "seed": seed})))
        return found

    def summary(self, results):
        rows = [["counted", results.cell("counted", lambda figures: figures["share"])]]
        rows.append(["FedAvg", results.cell("FedAvg", lambda figures: figures["rounds"][-1]["accuracy"])])
        curve = results.curve("FedAvg", "FedAvg", lambda entry: 100 * entry["accuracy"])
        picture = Picture("lines", "Accuracy over rounds.", "round", "accuracy, %", [curve])
        return Summary({"found": Table("Found.", ["run", "accuracy, %"], rows)}, {"rounds": picture})
