"""Gudur & Perepu 2021: the users are the paper's, and the tables say what the runs found."""

from pathlib import Path

import pytest

from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_simulator.experiment import sections
from studies.gudur import runs as study
from studies.gudur.alone import KINDS, users_alone
from studies.gudur.users import ALL_ARCHITECTURES, APPLICATIONS, play, users_of
from studies.run import Call, Outcome, Run
from studies.study import Results
from tests.support.tiny_study import rows_of, same_as_tracked

FORMS = (*study.WITHOUT, study.SCORES, study.LITERAL, study.LABELS)
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
    first = [user.labels[0] for user in users[1:5]]
    assert first == ["children_playing", "drilling", "air_conditioner", "children_playing"]
    models, sounds = ([one for one in happens(users) if (one[3] > 0) == sound] for sound in (False, True))
    assert models == [(1, 6, "ann3", 0), (1, 8, "cnn1", 0), (2, 4, "cnn3", 0), (3, 5, "cnn4", 0)]
    music, siren = ([one[:2] for one in sounds if one[2:] == (name, 50)] for name in ("street_music", "siren"))
    assert (music, siren) == ([(4, 3), (4, 7)], [(2, 6), (6, 3), (6, 5), (9, 4)])


def entry(round_id, local, fleet, class_ids=(), last=False):
    """A round of three users; each one's accuracies are 10 points lower than those of the one before."""
    users = [
        {
            "user": n,
            "local_accuracy": local - 10 * (n - 1),
            "global_accuracy": fleet - 10 * (n - 1),
            "clips": 800,
            "distilled_accuracy": local,
            "own_after": 70.0,
            "held_out_before": 50.0,
            "held_out_after": 60.0,
            "new_classes": [{"class_id": "c8", "heard": n == 1, "recognised": 90.0 / n, "mistaken": 2.0}]
            if last
            else [],
        }
        for n in (1, 2, 3)
    ]
    met = [{"user": n, "label": "stop", "clips": 9} for n in (1, 2)] if class_ids else []
    reports = [{"user": n, "label": "stop", "class_id": class_id} for n, class_id in enumerate(class_ids, 1)]
    return {"round": round_id, "users": users, "arrivals": met, "reports": reports}


def results(class_ids, local=(80.0, 90.0)):
    first, last = local
    played = {"rounds": [entry(1, first, first + 4.0, class_ids), entry(2, last, last + 6.0, last=True)]}
    alone = {"users": [{"own": 68.0, "strangers": 55.0, "samples": 3000}] * 3, "learning_rate": 0.02}
    names = [study.attacked(attack) for attack in (None, *study.POISONED)] + [study.SHARED]
    for application in APPLICATIONS:
        names += [study.fleet_name(application, 3, form) for form in FORMS]
        names += [study.fleet_name(application, 10, form) for form in (study.ALONE, study.SCORES)]
        names += [study.trial(application, form, rate) for form in study.TUNED for rate in study.TRIALS]
        names += [study.trial(application, study.ALONE, rate, 10) for rate in study.TRIALS]
    by_name = {}
    for name in names:
        found = alone if name.split(", rate")[0].endswith(study.WITHOUT) else played
        by_name[name] = [(Run("", seed, Call(play)), Outcome(found, 0.0, 0.0, {})) for seed in (1, 2)]
    return Results(by_name)


def test_the_tables_are_those_of_the_tracked_results():
    by_hand = {"published", "published-users", "device"}
    same_as_tracked("gudur", study.summary(results(("c8", "c8"))), by_hand, varying={"falls"})


@pytest.mark.parametrize(("class_ids", "matched"), [(("c8", "c8"), 2), (("c8", "c9"), 0), (("c8", None), 0)])
def test_a_new_sound_is_matched_where_all_its_users_were_given_one_class(class_ids, matched):
    row = rows_of(study.summary(results(class_ids)))["new-sounds"]["keywords, 3 users"]
    assert row == [f"{matched} of 2", f"{matched} of 2", "0 of 0", "90.0", "37.5", "2.0", "2.0"]


def test_without_a_fleet_users_learn_from_what_the_kind_of_model_names():
    """Made-up clips of three words, one of which only the user's own clips teach; its network changes on the way."""
    bundles = {"ann3": find_bundle("ann3"), "cnn1": find_bundle("cnn1")}
    data = sections.DataSection("synthetic", test=0.2, clips=3000, classes=4, speakers=60, noise=0.5)
    events = (sections.EventSection(2, "class-02", 40), sections.EventSection(2, bundle=bundles["cnn1"]))
    users = (sections.UserSection(bundles["ann3"], ("class-00", "class-01"), events=events),)
    rounds = sections.RoundsSection(count=3, strategy="zero_shot", seed=4, local={"epochs": 4, "learning_rate": 0.02})
    section = sections.ZeroShotSection(public=60, clips=(30, 40), held_out=0.2, guard=False)
    experiment = sections.ZeroShotExperiment(data, rounds, users, section)
    (alone,), (public,), (both,) = (users_alone(kind, experiment)["users"] for kind in KINDS)
    assert alone["samples"] + public["samples"] == both["samples"]
    assert public["samples"] == 3 * 4 * 2 * 60
    assert alone["own"] > 80
    assert both["strangers"] > 80
    assert public["strangers"] < 70  # a third of the test clips are of a word that is not public
