"""The ablation: variants are tuned alike and train on as many clips, and stand beside alone and the plan."""

import pytest

from studies.ablation import runs as study
from studies.render import shown
from tests.support.tiny_study import NoTraining, same_as_tracked, summary_of


def test_made_up_figures_make_the_tracked_tables(tmp_path):
    same_as_tracked("ablation", summary_of(study, tmp_path), set())


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

    found = summary_of(study, tmp_path, worse).tables
    rows = {row[0]: [shown(cell) for cell in row[1:]] for row in found["parts"].rows}
    assert rows["alone"][3:6] == ["43.0 ± 5.2", "38.0 ± 1.0", ""]
    plan = [str(study.CHOSEN["the plan"]), "1", "4", "50.0 ± 0.0", "48.0 ± 1.0", "0.3", "", ""]
    assert rows["the plan"] == plan
    assert rows["the plan, guarded"][3:6] == ["70.0 ± 0.0", "68.0 ± 1.0", "0.0"]
    assert rows["no rehearsal"][3:] == ["30.0 ± 0.0", "48.0 ± 1.0", "2.0", "-20.0 ± 0.0", "0.0 ± 0.0"]
    attacked = {row[0]: [shown(cell) for cell in row[1:]] for row in found["attacked"].rows}
    assert attacked["LPA"] == ["10.0 ± 0.0", "10.0 ± 0.0", "2.0"]
    assert found["fleet"].rows[-1][1] == 8.0  # points that a device loses with the plan, at most
    assert all(row[-1] in found["tuning"].columns for row in found["tuning"].rows)
