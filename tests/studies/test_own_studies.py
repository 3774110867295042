"""The studies of our own: what each variant of the plan trains on, and what attackers cost."""

import pytest

from studies.ablation import runs as study
from studies.attackers import runs as attackers_study
from tests.support.tiny_study import NoTraining, rows_of, same_as_tracked, summary_of


@pytest.mark.parametrize(("name", "module"), [("ablation", study), ("attackers", attackers_study)])
def test_made_up_figures_make_the_tracked_tables(name, module, tmp_path):
    same_as_tracked(name, summary_of(module, tmp_path), set())


def test_every_variant_is_tuned_alike_and_trained_on_as_many_clips(tmp_path):
    runs = study.runs(NoTraining(False, tmp_path))
    for name, variant in study.VARIANTS.items():
        tuned = [run for run in runs if run.name.startswith(f"{name}, ") and run.seed in study.TUNING_SEEDS]
        assert len(tuned) == 8 * len(study.TUNING_SEEDS)
        for trial in study.TRIALS:
            rounds = variant.rounds(trial.passes, 260.0)
            share = variant.selection.get("fraction", 1.0)
            trained = share * rounds * (variant.each_pass * trial.passes + variant.each_round) + variant.first
            assert trained + (20 if variant.personal else 0) == pytest.approx(260.0, rel=0.05)
    assert not {run.seed for run in runs if run.name in study.VARIANTS} & set(study.TUNING_SEEDS)


def test_rows_stand_beside_alone_and_the_plan(tmp_path):
    def worse(run, found):
        if run.name == "no rehearsal":
            found["devices"] = [entry | {"listening_own": 0.3} for entry in found["devices"]]
        if run.name == study.PLAN and run.seed == 1:
            found["devices"][0] |= {"alone_own": 0.58}
        return found | {"diverged": "so it did", "devices": []} if run.name == "LPA, attackers" else found

    summary = summary_of(study, tmp_path, worse)
    found, rows = summary.tables, rows_of(summary)["parts"]
    assert rows["alone"][3:6] == ["43.0 ± 5.2", "38.0 ± 1.0", ""]
    plan = [str(study.CHOSEN["the plan"]), "1", "4", "50.0 ± 0.0", "48.0 ± 1.0", "0.3", "", ""]
    assert rows["the plan"] == plan
    assert rows["the plan, guarded"][3:6] == ["70.0 ± 0.0", "68.0 ± 1.0", "0.0"]
    assert rows["no rehearsal"][3:] == ["30.0 ± 0.0", "48.0 ± 1.0", "2.0", "-20.0 ± 0.0", "0.0 ± 0.0"]
    assert rows_of(summary)["attacked"]["LPA"] == ["10.0 ± 0.0", "10.0 ± 0.0", "2.0"]
    assert found["fleet"].rows[-1][1] == 8.0  # points that a device loses with the plan, at most
    assert all(row[-1] in found["tuning"].columns for row in found["tuning"].rows)


def test_attacked_bycost_points_and_a_model_of_no_numbers_guesses(tmp_path):
    def broken(run, found):
        return found | {"diverged": "so it did"} if run.name == "weighted mean, sign_flip" else found

    found = summary_of(attackers_study, tmp_path, broken)
    rows = rows_of(found)["losses"]
    assert rows["LPA"][:3] == ["92.0 ± 1.0", "-40.0 ± 0.0", "-40.0 ± 0.0"]
    assert rows["weighted mean"][:4] == ["52.0 ± 1.0", "0.0 ± 0.0", "42.0 ± 1.0", "0.0 ± 0.0"]
    assert rows[attackers_study.ALONE][1] == "0.0 ± 0.0"
    assert rows["weighted mean"][-1] == "42.0"
    assert found.tables["strengths"].rows[3] == ["LPA", *[-40.0] * 6]
