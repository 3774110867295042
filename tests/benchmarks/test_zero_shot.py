"""The benchmark of `zero_shot` compares forms of the strategy on the same fleets."""

import pytest

from benchmarks.zero_shot import FORMS, experiment


@pytest.mark.parametrize("form", FORMS)
def test_forms_differ_in_what_they_learn_from_and_in_nothing_else(form):
    one, alone = experiment(7, form), experiment(7, "alone")
    settings = one.plan.local.settings
    assert settings["labels"] == form.startswith("labels")
    assert one.zero_shot.guard == form.endswith("guarded")
    assert one.zero_shot.held_out > 0  # what no round trains on judges every form
    assert (one.users, one.data, one.rounds.count) == (alone.users, alone.data, alone.rounds.count)
    assert alone.plan.local.settings["distill_epochs"] == 0  # nothing of the fleet's reaches the model
