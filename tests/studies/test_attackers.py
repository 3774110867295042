"""Attackers: losses are counted from the weighted mean, and the quarantine's catch from where the attack begins."""

from fleet_simulator.experiment.faults import FaultsSection, attacking_devices
from studies.attackers import runs as study
from studies.render import shown
from tests.support.tiny_study import same_as_tracked, summary_of


def test_made_up_figures_make_the_tracked_tables(tmp_path):
    same_as_tracked("attackers", summary_of(study, tmp_path), set())


def test_attackers_cost_points_and_a_model_of_no_numbers_guesses(tmp_path):
    def broken(run, found):
        return found | {"diverged": "so it did"} if run.name == "weighted mean, sign_flip" else found

    found = summary_of(study, tmp_path, broken).tables
    rows = {row[0]: [shown(cell) for cell in row[1:]] for row in found["losses"].rows}
    assert rows["LPA"][:3] == ["92.0 ± 1.0", "-40.0 ± 0.0", "-40.0 ± 0.0"]
    assert rows["weighted mean"][:4] == ["52.0 ± 1.0", "0.0 ± 0.0", "42.0 ± 1.0", "0.0 ± 0.0"]
    assert rows[study.ALONE][1] == "0.0 ± 0.0"
    assert rows["weighted mean"][-1] == "42.0"
    assert found["strengths"].rows[3] == ["LPA", *[-40.0] * 6]


def test_the_quarantine_is_told_with_the_rounds_that_it_took(tmp_path):
    attackers = attacking_devices(FaultsSection(study.SHARE), 9, 1)
    honest = (set(range(9)) - attackers).pop()

    def caught(run, found):
        if run.name != f"{study.DEFAULT}, {study.LATE}" or run.seed != 1:
            return found
        entry = found["rounds"][0]
        return found | {
            "rounds": [entry, entry | {"round": 7, "quarantined": [*attackers, honest]}, entry | {"round": 10}]
        }

    none, late = summary_of(study, tmp_path, caught).tables["quarantine"].rows
    assert none == ["none", 0, 0, None, None, 0]
    assert late[2:] == [len(attackers), 2, 2, 1]
