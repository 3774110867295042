"""Every table's text can be written from its runs' figures alone, and every run is asked for once."""

import pytest

from studies.ablation import table as ablation
from studies.attackers import table as attackers
from studies.document import section
from studies.drawn import PICTURES
from studies.fedmlac import often as fedmlac_often
from studies.fedmlac import table as fedmlac
from studies.in_short import in_short_of
from studies.report import Claim, claims_of
from studies.run import Outcome
from studies.scale import Scale
from studies.tables import NAMES, load_table


class NoTraining(Scale):
    """A scale whose data and bundles are stand-ins, for runs that nobody does."""

    def data(self, name):
        path = self.output / name
        path.touch()
        return path

    def bundles(self, architectures, *options):
        paths = {name: self.output / f"{name}.auricle" for name in architectures}
        for name, path in paths.items():
            path.write_text(name)
        return paths


def figures(run):
    accuracy = 0.9 if "FedMLAC" in run.name or "LPA" in run.name else 0.5
    device = {"device": 0, "clips": 3, "global": 0.5, "own": 0.4, "own_test": None}
    kinds = {"alone": 0.4, "public": 0.3, "both": 0.5, "listening": accuracy, "guarded": 0.7, "local": accuracy - 0.1}
    for kind, share in kinds.items():
        device |= {f"{kind}_own": share, f"{kind}_strangers": share - run.seed / 100}
    other = device | {"own_test": 0.2}
    entry = {
        "round": 1,
        "devices": 9,
        "accuracy": accuracy + run.seed / 100,
        "macro_f1": accuracy,
        "device_seconds": 4.0,
    }
    if run.name.startswith("visited often"):
        entry |= {"public": 0.5} | {key: device[key] for key in device if key.startswith(("local_", "listening_"))}
    return {"rounds": [entry], "devices": [device, other], "own": 0.6, "strangers": 0.55}


@pytest.fixture
def text(tmp_path):
    def of(table, change=lambda run, found: found):
        scale = NoTraining(False, tmp_path)
        runs = table.runs(scale)
        assert len({(run.name, run.seed) for run in runs}) == len(runs)
        assert {run.digest for run in runs} == {run.digest for run in table.runs(scale)}
        return section(table, [(run, Outcome(change(run, figures(run)), 0.0, 1.0, {})) for run in runs], scale)

    return of


def test_fedmlac_stands_beside_what_was_published(text):
    def changed(run, found):
        entry = found["devices"][0]
        if run.name == "FedAvg, wrong 50%":
            found["devices"] = [entry | {"local_strangers": 0.2}, entry | {"local_strangers": 0.1}]
        if run.name == "FedMLAC, five networks, clean":
            found["devices"] = [entry | {"local_strangers": 0.3}]
        return found | {"diverged": "so it did", "devices": []} if run.name == "FedOPT, wrong 50%" else found

    found, spread = text(fedmlac, changed), "± 0.7"
    assert found.startswith("## FedMLAC")
    gained = "FedMLAC has +40.0 against FedAvg, with half of the labels wrong +40.0"
    assert gained in in_short_of(found)
    assert in_short_of(found).endswith(
        "against own and public clips without a fleet FedMLAC has +40.0, with half of the labels wrong +40.0, and "
        "`zero_shot` +6.5."
    )
    some = "30% of the devices in a round"
    assert f"| {some}, clean | 38.5 {spread} |  | 38.5 {spread} | 78.5 {spread} |" in found
    elsewhere = next(claim for claim in claims_of(found) if "10 to 100 %" in claim.claim)
    assert f"; {some}, clean: +40.0 (FedAvg), +40.0 (FedOPT); {some}, wrong 50%: +40.0" in elsewhere.ours
    assert (
        f"| clean | 38.5 {spread} (80.2) | 38.5 {spread} (80.4) | 38.5 {spread} (83.3) | 78.5 {spread} (84.6) |"
        in found
    )
    assert (
        f"| wrong 50% | 15.0 ± 0.0 (69.7) | 38.5 {spread} (68.7) | 10.0 ± 0.0 (74.0) | 78.5 {spread} (77.1) |" in found
    )
    assert "| 10 dB everywhere | 0.0 ± 0.0 (18.9) |  |  | 0.0 ± 0.0 (13.3) |" in found
    assert f"| alone |  | 40.0 ± 0.0 | 38.5 {spread} | 40.0 ± 0.0 | 38.5 {spread} |" in found
    assert "| `zero_shot` |  | 60.0 ± 0.0 | 55.0 ± 0.0 |  |  |" in found
    claims = found.partition("### Claims")[2]
    assert (
        "| +4.4, +4.2, +1.3 | +40.0, +40.0, +40.0; 1 visits: +40.0 (FedAvg), on own clips +40.0 (FedAvg) | yes |"
        in claims
    )
    assert "| 3.0 for 5.5 (FedAvg); 7.5 for 10.5 (FedAvg), 11.7 (FedProx), 9.3 (FedOPT) |" in claims
    assert "| wrong 30%: 0.0 for 0.0 (FedAvg); wrong 50%: 0.0 for 23.5 (FedAvg)," in claims
    assert "| Five networks: LPA improves the own models | +1.8 | -48.5 ± 0.7 | no |" in claims
    assert (
        "| own, clean: +40.0 ± 0.0; strangers, clean: -8.5 ± 0.7; own, wrong 50%: +40.0 ± 0.0; strangers, wrong 50%:"
        in claims
    )


def test_where_devices_are_visited_often_a_lead_is_told_from_one_over_models_that_nobody_stops(text):
    def learnt_by_heart(run, found):
        if not run.name.startswith("visited often: Fed") or "wrong" not in run.name or run.seed == 100:
            return found
        early, late = (0.1, 0.5) if "FedMLAC" in run.name else (0.6, 0.3)
        keys = ("public", "local_strangers", "local_own", "listening_own", "listening_strangers")
        rounds = [{"round": n, "accuracy": v} | dict.fromkeys(keys, v) for n, v in ((20, early), (40, late))]
        return {"rounds": rounds, "devices": [entry | {"local_strangers": late} for entry in found["devices"]]}

    found = text(fedmlac, learnt_by_heart)
    often = found.partition("### Visited often\n")[2].partition("###")[0]
    assert "40 rounds of all devices" in often
    assert "| wrong 50%, FedAvg | 30.0 ± 0.0 (69.7) | 40.0 ± 0.0 | 30.0 ± 0.0 | 20 and 20 | 60.0 ± 0.0 |" in often
    assert "| wrong 50%, FedMLAC | 10.0 ± 0.0 | 50.0 ± 0.0 |\n" in often
    assert "| FedOPT, stopped |  |  | 60.0 ± 0.0 | 60.0 ± 0.0 |" in often
    wrong = next(claim for claim in claims_of(found) if "half of the labels wrong" in claim.claim)
    assert wrong.ours.endswith("40 visits: +20.0 (FedAvg), +20.0 (FedOPT), on own clips +20.0 (FedAvg), +20.0 (FedOPT)")
    assert wrong.why.endswith(
        "40 visits, the shared models at the end and where a server would have stopped: FedAvg 30.0 and 60.0, FedOPT "
        "30.0 and 60.0, FedMLAC 50.0 and 50.0: FedAvg learns wrong labels by heart where nobody stops it; FedMLAC's "
        "local models lead those of FedAvg at the paper's rate of 0.01 by +20.0 points, on own clips by +20.0"
    )


def test_every_method_has_as_many_trials_on_seeds_that_are_not_reported(tmp_path):
    runs = fedmlac.runs(NoTraining(False, tmp_path))
    assert {len(trials) for trials in fedmlac.TRIALS.values()} == {5}
    assert all(fedmlac.CHOSEN[name] in trials for name, trials in fedmlac.TRIALS.items())
    tuned = {(run.name, run.seed) for run in runs if run.seed in fedmlac.TUNING_SEEDS}
    often = fedmlac_often.TRIALS
    assert {len(trials) for trials in often.values()} == {2}
    assert all(fedmlac_often.CHOSEN[name] in trials for name, trials in often.items())
    assert len(tuned) == 2 * len(often)
    assert not set(fedmlac.SEEDS) & set(fedmlac.TUNING_SEEDS)


def test_attackers_cost_points_and_a_model_of_no_numbers_guesses(text):
    def broken(run, found):
        return found | {"diverged": "so it did"} if run.name == "weighted mean, sign_flip 30%" else found

    found = text(attackers, broken)
    assert "### `label_flip`" in found
    assert "| LPA | 92.0 ± 1.0 | -40.0 ± 0.0 | -40.0 ± 0.0 |" in found
    assert "alone loses\n0.0 ± 0.0 at 30%: that is the least" in found
    assert "| weighted mean | 52.0 ± 1.0 | 0.0 ± 0.0 | 42.0 ± 1.0 |" in found
    says = "- weighted mean: costs 0.0; holds against `sign_flip` by 1, `sign_flip` by 1 from half-way, `scaling`,"
    assert f"{says} `scaling` by 3.4e38, `noise`, `label_flip` and `false_clips`" in found
    claims = {claim.claim: claim for claim in claims_of(found)}
    assert claims["LPA is robust to malicious updates"].reproduced == "yes"
    assert claims["The default rule holds against every attack"] == Claim(
        "The default rule holds against every attack",
        "none",
        "against 8 of 8; it loses at most 0.0 points more than the honest devices alone",
        "yes",
    )
    assert "They flip after half of the rounds. The default's quarantine had 0 of the" in found
    assert claims["The default rule costs at most 1 point where nobody attacks"].ours == "0.0 points"
    assert f"| LPA |{6 * ' -40.0 |'}\n" in found
    assert (
        "Attacks: `sign_flip` (strength 4), `scaling` (strength 10), `scaling` by 3.4e38 (strength 3.4e+38)," in found
    )


def test_what_lpa_does_not_hold_against_is_told_with_what_the_table_shows_of_it(text):
    def lost(run, found):
        beaten = run.name in ("LPA, false_clips 30%", "LPA, sign_flip by 1 30%")
        return found | {"rounds": [found["rounds"][0] | {"accuracy": 0.2}]} if beaten else found

    claim = claims_of(whole := text(attackers, lost))[0]
    assert in_short_of(whole) == (
        "With 30% of the devices attacking, by the attack that does most harm, rules lose so many points more than the "
        "honest devices alone: weighted mean 0.0, trimmed mean 0.0, Multi-Krum 0.0, LPA 32.0, screened mean (the "
        "default) 0.0."
    )
    assert claim.reproduced == "in part"
    assert claim.ours.startswith("holds against 6 of 8 attacks by 30% of the devices; costs -40.0 points")
    assert claim.why == (
        "not against `sign_flip` by 1 (+32.0) and `false_clips` (+32.0), in points beyond the honest devices alone; "
        "it counts the clips that a device states: with true counts the same attack takes -40.0 points, with false "
        "ones 32.0; it judges by distance, and a small update is near: a flipped one takes 32.0 points, of half the "
        "size -40.0 (one seed), of four times the size -40.0"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_table_names_its_paper(name):
    assert load_table(name).PAPER


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_a_picture_names_runs_of_its_table(name, tmp_path):
    names = {run.name for run in load_table(name).runs(NoTraining(False, tmp_path))}
    assert {run for picture in PICTURES[name] for run in picture.runs} <= names


def test_at_full_scale_the_tables_state_more_seconds(tmp_path):
    for table in (attackers, ablation):
        small, full = (sum(run.cost_s for run in table.runs(NoTraining(one, tmp_path))) for one in (False, True))
        assert full > 1.9 * small


def test_the_ablation_tunes_every_variant_alike_and_trains_it_on_as_many_clips(text, tmp_path):
    runs = ablation.runs(NoTraining(False, tmp_path))
    for name, variant in ablation.VARIANTS.items():
        tuned = [run for run in runs if run.name.startswith(f"{name}, ") and run.seed in ablation.TUNING_SEEDS]
        assert len(tuned) == 8 * len(ablation.TUNING_SEEDS)
        for trial in ablation.TRIALS:
            rounds = variant.rounds(trial.passes, 260.0)
            share = variant.selection.get("fraction", 1.0)
            trained = share * rounds * (variant.each_pass * trial.passes + variant.each_round) + variant.first
            assert trained + (20 if variant.personal else 0) == pytest.approx(260.0, rel=0.05)
    assert not {run.seed for run in runs if run.name in ablation.VARIANTS} & set(ablation.TUNING_SEEDS)


def test_the_ablation_s_rows_stand_beside_alone_and_the_plan(text):
    def worse(run, found):
        if run.name == "no rehearsal":
            found["devices"] = [entry | {"listening_own": 0.3} for entry in found["devices"]]
        return found | {"diverged": "so it did", "devices": []} if run.name == "LPA, attackers" else found

    found = text(ablation, worse)
    assert in_short_of(found) == (
        "A device that takes part recognises 50.0 ± 0.0 % of its own clips and 48.0 ± 1.0 % of strangers' (alone: "
        "40.0 ± 0.0 and 38.0 ± 1.0); 0.0 devices do worse than alone."
    )
    assert "| alone |  |  |  | 40.0 ± 0.0 | 38.0 ± 1.0 |  |  |  |" in found
    assert f"| the plan | {ablation.CHOSEN['the plan']} | 1 | 4 | 50.0 ± 0.0 | 48.0 ± 1.0 | 0.0 |  |  |" in found
    assert "| the plan, guarded |  |  |  | 70.0 ± 0.0 | 68.0 ± 1.0 | 0.0 |  |  |" in found
    tuned = ablation.CHOSEN["no rehearsal"]
    assert f"| no rehearsal | {tuned} | 1 | 4 | 30.0 ± 0.0 | 48.0 ± 1.0 | 2.0 | -20.0 ± 0.0 | +0.0 ± 0.0 |" in found
    assert "| LPA | 10.0 ± 0.0 | 10.0 ± 0.0 | 2.0 |" in found
    claims = {claim.claim.split(":")[0]: claim for claim in claims_of(found)}
    assert claims["A device gains by taking part"].reproduced == "no"
    assert claims["Rehearsal earns its place in the plan"].reproduced == "yes"
    assert claims["Rehearsal earns its place in the plan"].ours == (
        "no rehearsal: own clips -20.0 ± 0.0 points, strangers +0.0 ± 0.0"
    )
    assert claims["Personalisation earns its place in the plan"].reproduced == "no"
    assert claims["A robust rule earns its place where a fifth of the devices attacks"].reproduced == "no"
    trials = found.partition("### Tuning")[2].partition("###")[0]
    assert trials.count("**") == 2 * len(ablation.VARIANTS)  # of eight trials each, the chosen one


def test_the_ablation_tells_how_much_the_device_loses_that_the_plan_serves_worst(text):
    def lost(run, found):
        entry = found["devices"][0]
        return found | {"devices": [entry | {"alone_own": 0.58}, *found["devices"][1:]]} if run.seed == 1 else found

    claim = next(claim for claim in claims_of(text(ablation, lost)) if claim.claim.startswith("A device gains"))
    assert "0.3 devices worse than alone" in claim.ours
    assert "loses 8.0 points of its own clips" in claim.why
