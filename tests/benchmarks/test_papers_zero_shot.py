"""The zero-shot table: its users are the paper's, and its text says what the runs found."""

from pathlib import Path

import pytest

from benchmarks.papers import zero_shot
from benchmarks.papers.report import Results
from benchmarks.papers.run import Call, Outcome, Run
from benchmarks.papers.zero_shot_users import ALL_ARCHITECTURES, APPLICATIONS, play, users_of

BUNDLES = {name: Path(f"{name}.auricle") for name in ALL_ARCHITECTURES}


def happens(users):
    return [
        (number, event.round, event.label or event.bundle.stem, event.clips)
        for number, user in enumerate(users, 1)
        for event in user.events
    ]


@pytest.mark.parametrize(
    ("application", "one", "other", "sizes"),
    [("keywords", "stop", "go", (400, 500)), ("sounds", "siren", "street_music", (50, 50))],
)
def test_three_users_meet_new_sounds_as_published(application, one, other, sizes):
    users = users_of(APPLICATIONS[application], 3, BUNDLES, together=False)
    assert [user.bundle.stem for user in users] == ["cnn2", "cnn3", "dscnn3"]
    first, later = sizes
    assert happens(users) == [(1, 4, one, first), (1, 8, one, later), (2, 4, one, first), (2, 8, other, later)]


def test_ten_users_change_their_models_and_meet_new_sounds_as_published():
    users = users_of(APPLICATIONS["sounds"], 10, BUNDLES, together=False)
    assert [user.labels[0] for user in users[1:5]] == [
        "children_playing", "drilling", "air_conditioner", "children_playing",
    ]  # fmt: skip
    assert happens(users) == [
        (1, 6, "ann3", 0), (1, 8, "cnn1", 0), (2, 4, "cnn3", 0), (2, 6, "siren", 50), (3, 5, "cnn4", 0),
        (4, 3, "street_music", 50), (4, 7, "street_music", 50), (6, 3, "siren", 50), (6, 5, "siren", 50),
        (9, 4, "siren", 50),
    ]  # fmt: skip


def entry(round_id, local, fleet, class_ids=(), last=False):
    """A round of two users; the second one's accuracies are 10 points lower."""
    users = [
        {"user": n, "local_accuracy": local - 10 * (n - 1), "global_accuracy": fleet - 10 * (n - 1),
         "distilled_accuracy": local, "held_out_before": 50.0, "held_out_after": 60.0,
         "new_classes": [{"class_id": "c8", "heard": n == 1, "recognised": 90.0 / n, "mistaken": 2.0}] if last else []}
        for n in (1, 2, 3)
    ]  # fmt: skip
    met = [{"user": n, "label": "stop", "clips": 9} for n in (1, 2)] if class_ids else []
    reports = [{"user": n, "label": "stop", "class_id": class_id} for n, class_id in enumerate(class_ids, 1)]
    return {"round": round_id, "users": users, "arrivals": met, "reports": reports}


def results(class_ids):
    figures = {"rounds": [entry(1, 80.0, 84.0, class_ids), entry(2, 90.0, 96.0, last=True)]}
    names = [
        zero_shot._name(application, users, form)
        for application in APPLICATIONS
        for users in zero_shot.SIZES
        for form in zero_shot.FORMS
    ]
    names += [zero_shot._lie(attack, rate) for attack in zero_shot.POISONED for rate in zero_shot.RATES]
    names.append(zero_shot.SHARED)
    run = [(Run("", seed, Call(play)), Outcome(figures, 0.0, 0.0, {})) for seed in (1, 2)]
    return Results(False, dict.fromkeys(names, run))


def test_the_text_has_the_published_figures_beside_ours_and_the_gain():
    text = zero_shot.section(results(("c8", "c8")))
    assert "| user 2 | 91.9 → 95.3 | +3.4 | 75.0 ± 0.0 | 80.0 ± 0.0 | +5.0 ± 0.0 |" in text
    assert "Keywords, 3 users: gain +5.0, at least the published +3.4." in text
    assert "| keywords, 3 users | 2 of 2 | 90.0 | 37.5 | 2.0 |" in text


def test_users_who_were_given_different_classes_for_one_sound_are_not_matched():
    assert "| keywords, 3 users | 0 of 2 |" in zero_shot.section(results(("c8", "c9")))
    assert "| keywords, 3 users | 0 of 2 |" in zero_shot.section(results(("c8", None)))
