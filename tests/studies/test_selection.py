"""The table of selection and personal models tells rounds, device time and errors as counted by hand."""

import dataclasses

import pytest

from fleet_simulator.experiment.sections import DataSection, Experiment, FleetSection, ModelSection, RoundsSection
from studies.in_short import in_short_of
from studies.report import CLAIMS, Results
from studies.run import Call, Outcome, Run
from studies.selection import personal as selection_personal
from studies.selection.clips import HOURS, drawn
from studies.selection.personal import GROUPS, errors, fewer, of_key
from studies.selection.runs import (
    DRAWN,
    METHODS,
    PAIRS,
    PERSONAL,
    PERSONAL_RATES,
    RATE,
    RATES,
    SERVER_MODELS,
    SHARES,
    START,
    trial,
)
from studies.selection.table import compared, converged, method_run, reached, section
from studies.warm_start import from_warm_start, judged_start

PAIR = dataclasses.replace(PAIRS[0], rounds=20)


def curve(accuracies, clips):
    """Rounds of as many thousand clips each."""
    return [{"accuracy": accuracy, "device_seconds": clips} for accuracy in accuracies]


def figures(accuracies, clips, personal=0.8):
    devices = [
        {
            "device": n,
            "clips": 20 + 30 * n,
            "global": 0.6,
            "personal": personal,
            "listening_own": personal,
            "listening_strangers": 0.5,
            "alone_own": 0.55,
            "alone_strangers": 0.4,
        }
        for n in range(len(SHARES))
    ]
    return {"rounds": curve(accuracies, clips), "devices": devices}


@pytest.fixture(scope="module")
def results():
    slow = [0.6 + 0.002 * n for n in range(80)]
    quick = [min(0.7, 0.6 + 0.005 * n) for n in range(80)]
    found = {DRAWN: drawn([case for pair in PAIRS for case in pair.cases])}
    found[START] = {"strangers": 0.5, "devices": [0.5] * len(SHARES)}
    for name, method in METHODS.items():
        shown = quick if method.switch else slow
        for personal in PERSONAL if name in SERVER_MODELS else [""]:
            run = f"{name}, {personal}" if personal else name
            found[run] = figures(shown[: method.rounds], 0.9, 0.9 if personal == "group balanced" else 0.8)
    found |= {trial(name, rate): figures(slow, 1.0) for name in RATE for rate in RATES}
    names = [f"{SERVER_MODELS[0]}, {personal}" for personal in PERSONAL]
    found |= {trial(name, rate): figures(slow, 1.0) for name in names for rate in PERSONAL_RATES}
    run, machine = Run("any", 1, Call(print)), {}
    return Results(False, {name: [(run, Outcome(one, 0.0, 1.0, machine))] * 2 for name, one in found.items()})


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


def test_a_methods_first_rounds_are_those_of_its_shorter_runs():
    for pair in PAIRS:
        base, dynamic = METHODS[pair.base], METHODS[pair.dynamic]
        assert base.rounds >= pair.rounds == dynamic.rounds
        assert (base.strategy, base.local) == (dynamic.strategy, dynamic.local)
        assert dynamic.selection == {"name": "dynamic", "fraction": 0.3, "switch_round": pair.switch}


def test_errors_are_those_of_the_runs_by_the_devices_people(results):
    name = "FedProx 0.01, R = 30, local"
    assert errors(results, name, of_key("global"), GROUPS["40 people"]) == [pytest.approx(40.0)] * 2
    assert fewer(results, name) == pytest.approx(50.0)
    assert [len(devices) for devices in GROUPS.values()] == [5, 3, 2]


def test_the_text_has_published_figures_beside_ours_and_a_claim_for_each(results):
    text = section(results)
    assert in_short_of(text).startswith("A dynamic draw of the devices saves 0.0, 0.0, 0.0 % of their time against an")
    assert in_short_of(text).endswith("make 75 % and 75 % fewer errors than the shared one.")
    table, _, claims = text.partition(CLAIMS)
    assert (
        "| FedAvg, R = 30, group balanced | 10.0 ± 0.0 | 10.0 ± 0.0 | 10.0 ± 0.0 | 10.0 ± 0.0 | 75 | 50.0 ± 0.0 |"
        in table
    )
    assert "| 15.4 / 12.6 / 17.4 / 15.0 |" in table
    assert "public only: the start | 50.0 ± 0.0" in table
    assert "**" in table.partition("### Tuning")[2]
    rows = [line for line in claims.splitlines() if line.startswith("| ") and "published | ours" not in line]
    assert len(rows) == 1 + 8  # the rule below the header, and a claim each
    assert "| 11.8, 12.2, 7.2 | 0.0, 0.0, 0.0 | no |" in claims
    assert "| 12 % | 75 % and 75 % | yes |" in claims
    assert {row.split(" | ")[3] for row in rows[1:]} <= {"yes", "no", "in part"}


def test_the_runs_that_show_a_method_are_those_whose_model_is_fine_tuned():
    assert method_run("FedAvg, R = 30") == "FedAvg, R = 30, local"
    assert method_run("FedAvg") == "FedAvg"
    assert selection_personal.FEWER == 12


def test_the_start_is_judged_as_the_fleet_begins_with_it(bundles, tmp_path):
    data = DataSection("synthetic", clips=1200, classes=4, speakers=40, noise=0.5, public=0.3)
    fleet = FleetSection(devices=3, shares=(1, 1, 2), held_out=0.4)
    rounds = RoundsSection(count=1, seed=3, local={"epochs": 1, "learning_rate": 1e-6, "rehearsal": 0.0})
    arguments = {"bundle": bundles["ann3"], "learning_rate": 0.02, "epochs": 5, "folder": tmp_path / "warm"}
    experiment = Experiment(data, fleet, ModelSection(bundles["ann3"]), rounds)
    start, begun = judged_start(experiment, **arguments), from_warm_start(experiment, **arguments)
    assert start["strangers"] == pytest.approx(begun["rounds"][0]["accuracy"], abs=0.01)
    assert start["devices"] == pytest.approx([entry["global"] for entry in begun["devices"]], abs=0.03)
    assert start["strangers"] > 0.8
