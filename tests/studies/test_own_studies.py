"""The studies of our own: what each variant of the plan trains on, and what attackers cost."""

import pytest

from studies.ablation import runs as study
from studies.attackers import runs as attackers_study
from tests.support.tiny_study import NoTraining, same_as_tracked, summary_of


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
