"""The study of selection and personal models tells rounds, device time and errors as counted by hand."""

import dataclasses

import pytest

from fleet_simulator.experiment.sections import DataSection, Experiment, FleetSection, ModelSection, RoundsSection
from studies.selection import runs as study
from studies.selection.clips import HOURS, drawn
from studies.selection.runs import DRAWN, METHODS, PAIRS, SHARES, START, compared, converged, reached
from studies.warm_start import from_warm_start, judged_start
from tests.support.tiny_study import rows_of, same_as_tracked, summary_of

PAIR = dataclasses.replace(PAIRS[0], rounds=20)


def curve(accuracies, clips):
    """Rounds of as many thousand clips each."""
    return [{"accuracy": accuracy, "samples": 1000 * clips} for accuracy in accuracies]


def made_up(run, _):
    """Figures of a run: dynamic selection learns quicker, and groups make better personal models than own clips."""
    if run.name == DRAWN:
        saved = [{"mean": 0.05, "low": -0.1, "high": 0.2}] * (2 * len(PAIRS))
        return {"hours": {"even": 10.0, "early": 8.0, "late": 12.0}, "saved": saved}
    if run.name == START:
        return {"strangers": 0.5, "devices": [{"device": n, "start": 0.5} for n in range(len(SHARES))]}
    quick = "R =" in run.name
    accuracies = [min(0.7, 0.6 + 0.005 * n) if quick else 0.6 + 0.002 * n for n in range(80)]
    name = next(name for name in sorted(METHODS, key=len, reverse=True) if run.name.startswith(name))
    personal = 0.9 if "group balanced" in run.name else 0.8
    device = {"clips": 20, "global": 0.6, "personal": personal, "listening_strangers": 0.5}
    device |= {"alone_own": 0.55, "alone_strangers": 0.4}
    devices = [device | {"device": n, "clips": 20 + 30 * n} for n in range(len(SHARES))]
    return {"rounds": curve(accuracies[: METHODS[name].rounds], 0.9 if quick else 1.0), "devices": devices}


def test_a_curve_has_converged_when_it_stays_near_its_end_for_the_rest():
    assert converged([0.5, 0.6] + [0.7] * 18) == 7  # the first mean of five that has neither of the lower tests
    assert converged([0.5 + 0.01 * n for n in range(20)]) is None  # still rising
    assert converged([0.7] * 10 + [0.6] + [0.7] * 12) == 16  # it left the band: five tests later it is back
    assert converged([0.7] * 20) == 5


def test_both_are_compared_at_the_lower_of_what_they_end_with():
    base, other = [0.1, 0.3, 0.5, 0.7, 0.7, 0.7, 0.7, 0.7], [0.4, 0.6, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8]
    # Means of five tests: 0.46 0.58 0.66 0.70, and 0.68 0.76 0.80 0.80; the lower end is 0.70.
    assert reached(base, other) == (8, 6)


def test_savings_are_of_all_rounds_and_of_those_to_convergence():
    base, dynamic = {"rounds": curve([0.02 * n for n in range(20)], 2.0)}, {"rounds": curve([0.5] * 20, 1.5)}
    found = compared(base, dynamic, PAIR)
    assert found["total"] == pytest.approx(25.0)
    assert found["converged"] == pytest.approx(100 * (1 - 5 * 1.5 / 40))  # of all rounds: the base did not converge
    assert (found["stopped"], found["not converged"]) == (0.0, 1.0)
    assert found["rounds dynamic"] == 5
    # FedProx converged in the paper, so that both stop there.
    both = dataclasses.replace(PAIR, converged=(10, 10))
    assert compared(dynamic, dynamic, both)["converged"] == pytest.approx(0.0)


def test_the_draws_alone_save_what_small_devices_leave_out():
    found = drawn([("even", 50, 30, 50), ("by size", 50, 30, 50)])
    hours, (even, by_size) = found["hours"], found["saved"]
    assert hours["even"] == pytest.approx(0.3 * sum(HOURS), rel=0.02)
    assert hours["early"] < hours["even"] < hours["late"] == hours["by size"]
    assert even["low"] < 0 < even["mean"] < 0.118 < by_size["mean"]  # less than published, against either


def test_tables_are_counted_from_the_runs_and_those_of_the_tracked_results(tmp_path):
    found = summary_of(study, tmp_path, made_up)
    same_as_tracked("selection", found, {"published"})
    tables = rows_of(found)
    *first, _ = tables["time"]["FedAvg, R = 30 of 50 rounds"]
    assert first == [*(f"{mean} ± 0.0" for mean in (69.4, 70.0, 0.6, 50.0, 45.0, 10.0)), "11.8"]
    assert tables["personal"]["public only: the start"] == [*["50.0 ± 0.0"] * 4, "", "50.0 ± 0.0"]
    alone = tables["personal"]["alone: the start, and own clips"]
    assert alone == [*["45.0 ± 0.0"] * 4, "", "60.0 ± 0.0"]
    balanced = "FedAvg, R = 30, group balanced"
    assert tables["personal"][balanced] == [*["10.0 ± 0.0"] * 4, "75.0", "50.0 ± 0.0"]
    assert tables["gains"][balanced] == ["75.0"] * 3 + ["-10.0 ± 0.0"]
    assert tables["fleet"]["clips of a device, most"] == ["290"]
    assert tables["fleet"]["hours of a round, early, over an even draw, %"] == ["-20"]
    assert tables["tuning"]["FedAvg"] == ["75.4"] * 4 + ["0.1"]
    assert tables["tuning-personal"]["local"] == ["80.0"] * 4 + ["0.03"]


def test_the_start_is_judged_as_the_fleet_begins_with_it(bundles, tmp_path):
    data = DataSection("synthetic", clips=1200, classes=4, speakers=40, noise=0.5, public=0.3)
    fleet = FleetSection(devices=3, shares=(1, 1, 2), held_out=0.4)
    rounds = RoundsSection(count=1, seed=3, local={"epochs": 1, "learning_rate": 1e-6, "rehearsal": 0.0})
    arguments = {"bundle": bundles["ann3"], "learning_rate": 0.02, "epochs": 5, "folder": tmp_path / "warm"}
    experiment = Experiment(data, fleet, ModelSection(bundles["ann3"]), rounds)
    start, begun = judged_start(experiment, **arguments), from_warm_start(experiment, **arguments)
    assert start["strangers"] == pytest.approx(begun["rounds"][0]["accuracy"], abs=0.01)
    assert [entry["start"] for entry in start["devices"]] == pytest.approx(
        [entry["global"] for entry in begun["devices"]], abs=0.03
    )
    assert start["strangers"] > 0.8
