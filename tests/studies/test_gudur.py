"""The zero-shot table: its users are the paper's, and its text says what the runs found."""

from pathlib import Path

import pytest

from fleet_protocol.ready_bundles import find_bundle
from fleet_simulator.experiment.data_section import DataSection
from fleet_simulator.experiment.sections import RoundsSection
from fleet_simulator.experiment.zero_shot_sections import EventSection, UserSection, ZeroShotExperiment, ZeroShotSection
from studies.gudur import table as zero_shot
from studies.gudur.alone import KINDS, users_alone
from studies.gudur.figures import fallen, gains, listening
from studies.gudur.runs import (
    ALONE,
    LABELS,
    LITERAL,
    POISONED,
    RATES,
    SCORES,
    SHARED,
    TRIALS,
    TUNED,
    WITHOUT,
    attacked,
    fleet_name,
    trial,
)
from studies.gudur.users import ALL_ARCHITECTURES, APPLICATIONS, play, users_of
from studies.in_short import in_short_of
from studies.report import CLAIMS, Results
from studies.run import Call, Outcome, Run

WITH_A_FLEET = (SCORES, LITERAL, LABELS)
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
        "children_playing",
        "drilling",
        "air_conditioner",
        "children_playing",
    ]
    assert happens(users) == [
        (1, 6, "ann3", 0),
        (1, 8, "cnn1", 0),
        (2, 4, "cnn3", 0),
        (2, 6, "siren", 50),
        (3, 5, "cnn4", 0),
        (4, 3, "street_music", 50),
        (4, 7, "street_music", 50),
        (6, 3, "siren", 50),
        (6, 5, "siren", 50),
        (9, 4, "siren", 50),
    ]


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
    names = [fleet_name(application, 3, form) for application in APPLICATIONS for form in (*WITHOUT, *WITH_A_FLEET)]
    names += [fleet_name(application, 10, form) for application in APPLICATIONS for form in (ALONE, SCORES)]
    names += [trial(application, form, rate) for application in APPLICATIONS for form in TUNED for rate in TRIALS]
    names += [trial(application, ALONE, rate, 10) for application in APPLICATIONS for rate in TRIALS]
    names += [attacked(attack) for attack in (None, *POISONED)] + [SHARED]
    by_name = {}
    for name in names:
        found = alone if name.split(", rate")[0].endswith(WITHOUT) else played
        by_name[name] = [(Run("", seed, Call(play)), Outcome(found, 0.0, 0.0, {})) for seed in (1, 2)]
    return Results(False, by_name)


def test_the_text_has_the_published_figures_beside_ours_and_the_gain():
    text = zero_shot.section(results(("c8", "c8")))
    users = [f"+3.5 ± 0.0 on {what} of {number} users" for number in (3, 10) for what in ("keywords", "sounds")]
    none = "+0.0 ± 0.0 on keywords of 3 users, +0.0 ± 0.0 on sounds of 3 users"
    assert f"in points: {', '.join(users)}. With the" in in_short_of(text)
    assert in_short_of(text).endswith(f"the default: {', '.join(users[:2])}. Public clips without a fleet: {none}.")
    assert "| keywords, 3 users, user 2 | 91.9 → 95.3 | +3.4 | 75.0 ± 0.0 | 80.0 ± 0.0 | +5.0 ± 0.0 |" in text
    assert "| keywords, 3 users | 2 of 2 | 90.0 | 37.5 | 2.0 |" in text
    assert "| 0% | no attackers | 1.0 | 4 of 12 |" in text  # two of six users reported the sound, in each of two runs


def test_every_form_is_judged_by_the_model_that_listens_beside_the_one_without_a_fleet():
    text = zero_shot.section(results(("c8", "c8")))
    rate = f"{RATES['keywords'][SCORES]:g}"
    assert (
        f"the fleet's scores (the paper's) | {rate} | 4 | 70.0 ± 0.0 | 60.0 ± 0.0 | +2.0 ± 0.0 | +5.0 ± 0.0 |" in text
    )
    assert "| 3 | 68.0 ± 0.0 | 55.0 ± 0.0 |  |  |" in text
    assert listening(results(()), trial("sounds", ALONE, TRIALS[0])) == [61.5, 61.5]
    assert "**65.0**" in text  # what the tuning chose, by the model that listens


def test_each_claim_has_ours_and_whether_it_was_reproduced():
    claims = zero_shot.section(results(("c8", "c8"))).partition(CLAIMS)[2]
    assert "| Keywords, 3 users: global over local accuracy, points | +3.36 | +5.00 ± 0.00 | in part |" in claims
    assert (
        "Local models have 75.0 % (published: 91.0). A user trains on 800 clips in a round (published: about 1000)."
        in claims
    )
    assert "By the equations to the letter it is +5.0 (by user: +5.0, +5.0, +5.0)." in claims
    strong = zero_shot.section(results(("c8", "c8"), local=(98.0, 98.0))).partition(CLAIMS)[2]
    assert "| Keywords, 3 users: global over local accuracy, points | +3.36 | +5.00 ± 0.00 | yes |" in strong
    assert "| 3 users: 4 of 4; 10 users: 4 of 4 | yes |" in claims
    assert gains(results(()), fleet_name("sounds", 10, SCORES)) == [5.0, 5.0]
    assert "pi.md#instructions-on-armv7" in claims


def test_ten_users_are_judged_beside_ten_alone():
    text = zero_shot.section(results(("c8", "c8")))
    assert "| keywords, 10 users | 92.5 → 96.5 | +4.0 | 75.0 ± 0.0 | 80.0 ± 0.0 | +5.0 ± 0.0 |" in text
    assert "| sounds, 10 users: alone | 0.02 | 3 | 68.0 ± 0.0 | 55.0 ± 0.0 |  |  |" in text
    assert "the model that listens has 65.0 %, alone 61.5 %" in text


def test_networks_that_fail_alone_are_counted_and_left_out_beside_all():
    found = results(("c8", "c8"))
    name = fleet_name("sounds", 10, ALONE)
    users = [dict(user) for user in found.figures(name)[0]["users"]]
    users[2]["own"] = 20.0
    outcome = Outcome({"users": users}, 0.0, 0.0, {})
    text = zero_shot.section(
        Results(False, {**found.by_name, name: [(run, outcome) for run, _ in found.by_name[name]]})
    )
    said = (
        "2 of 6 networks alone failed (below 40 % on own clips); of the other users the model that listens has 65.0 %"
    )
    assert f"\nTen users, sounds: {said}, alone 61.5 %.\n" in text
    assert said in text.partition(CLAIMS)[2]
    assert "Ten users, keywords: " not in text


def test_who_did_not_fall_is_compared_with_the_same_users_alone():
    found = results(("c8", "c8"))
    name = fleet_name("keywords", 3, LABELS)
    run, outcome = found.by_name[name][0]
    first, last = (dict(one, users=[dict(user) for user in one["users"]]) for one in outcome.figures["rounds"])
    last["users"][1]["own_after"] = 30.0
    run_2 = (run, Outcome({"rounds": [first, last]}, 0.0, 0.0, {}))
    text = zero_shot.section(Results(False, {**found.by_name, name: [run_2]}))
    assert "keywords, labels, seed 1: user 2 in round 2 (70 to 30 %); the others: own +2.0, strangers +5.0." in text
    assert "seed 1 alone of the default." in text


def test_trainings_that_fell_are_named():
    rounds = [{"round": n, "users": [{"user": 1, "own_after": own}]} for n, own in enumerate((90.0, 70.0, 65.0), 1)]
    assert fallen({"rounds": rounds}) == [(1, "in round 2 (90 to 70 %)")]


def test_users_who_were_given_different_classes_for_one_sound_are_not_matched():
    for class_ids in (("c8", "c9"), ("c8", None)):
        text = zero_shot.section(results(class_ids))
        assert "| keywords, 3 users | 0 of 2 |" in text
        assert "| 3 users: 0 of 4; 10 users: 0 of 4 | no |" in text


def test_without_a_fleet_users_learn_from_what_the_kind_of_model_names():
    """Made-up clips of three words, one of which only the user's own clips teach; its network changes on the way."""
    bundles = {"ann3": find_bundle("ann3"), "cnn1": find_bundle("cnn1")}
    data = DataSection("synthetic", test=0.2, clips=3000, classes=4, speakers=60, noise=0.5)
    events = (EventSection(2, "class-02", 40), EventSection(2, bundle=bundles["cnn1"]))
    users = (UserSection(bundles["ann3"], ("class-00", "class-01"), events=events),)
    rounds = RoundsSection(count=3, strategy="zero_shot", seed=4, local={"epochs": 4, "learning_rate": 0.02})
    section = ZeroShotSection(public=60, clips=(30, 40), held_out=0.2, guard=False)
    experiment = ZeroShotExperiment(data, rounds, users, section)
    (alone,), (public,), (both,) = (users_alone(kind, experiment)["users"] for kind in KINDS)
    assert alone["samples"] + public["samples"] == both["samples"]
    assert public["samples"] == 3 * 4 * 2 * 60
    assert alone["own"] > 80
    assert both["strangers"] > 80
    assert public["strangers"] < 70  # a third of the test clips are of a word that is not public
