"""The table on FedKWS-UI: false accepts and rejects by hand, its text, and runs that go on from one warm start."""

import numpy as np
import pytest

from fleet_simulator.experiment.sections import DataSection, Experiment, FleetSection, ModelSection, RoundsSection
from studies.in_short import in_short_of
from studies.kws_ui import table as kws_ui
from studies.kws_ui import tables as kws_ui_tables
from studies.report import CLAIMS, Results, claims_of
from studies.run import Call, Outcome, Run
from studies.warm_start import from_warm_start

TITLES = (
    kws_ui_tables.DSCNN,
    *kws_ui_tables.MANY_STEPS.values(),
    kws_ui_tables.MANY_WORDS,
    kws_ui_tables.TRANSFORMER,
    kws_ui_tables.BASE,
    kws_ui_tables.FEW_STEPS,
)


def confusion(words=(8,) * 10, taken_for_a_word=3) -> list[list[int]]:
    """Ten clips of every keyword, of which so many are named rightly and the others unknown; 30 clips of silence."""
    counts = np.zeros((12, 12), int)
    for word, right in enumerate(words):
        counts[word, word], counts[word, 10] = right, 10 - right
    counts[11, 11], counts[11, 0] = 30 - taken_for_a_word, taken_for_a_word
    return counts.tolist()


def test_false_accepts_and_rejects_are_means_over_the_keywords_alone():
    figures = {"rounds": [{"confusion": confusion()}]}
    accept, reject = kws_ui_tables.keyword_errors(figures)
    assert reject == pytest.approx(0.2)
    assert accept == pytest.approx(3 / 120 / 10)  # one keyword of ten, in 120 clips that are not its


def test_an_accuracy_is_the_mean_of_the_last_five_tests():
    rounds = [{"round": number, "accuracy": value} for number, value in enumerate((0.1, 0.5, 0.6, 0.5, 0.6, 0.5), 1)]
    assert kws_ui_tables.accuracy({"rounds": rounds}) == pytest.approx(0.54)
    assert kws_ui_tables.accuracy({"rounds": rounds, "diverged": "device 3"}) == 0.0
    assert kws_ui_tables.swing({"rounds": rounds}) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("leads", "verdict"), [((2, 3), "yes"), ((4, -1), "in part"), ((-1, -2), "no"), ((1,), "in part")]
)
def test_a_lead_within_its_spread_is_reproduced_in_part(leads, verdict):
    assert kws_ui_tables.judged(leads) == verdict


def test_a_small_lead_is_no_large_one():
    assert kws_ui_tables.judged((0.5, 0.6)) == "yes"
    assert kws_ui_tables.judged((0.5, 0.6), large=1.0) == "in part"


def figures(method, accuracy, seed):
    entry = {"accuracy": accuracy + 0.01 * seed, "device_seconds": 2.0, "devices": 1}
    rounds = [{"round": 3 * (test + 1)} | entry for test in range(5)]
    rounds[-1] |= {"confusion": confusion()}
    device = {"clips": 30 * seed, "listening_own": 0.5, "listening_strangers": 0.4}
    if method == "FedAvg":
        device |= {f"{kind}_{on}": 0.3 for kind in ("alone", "public", "both") for on in ("own", "strangers")}
    if "UI" in method or "ALO" in method:
        device |= {"own_trained": 0.95}
    return {"rounds": rounds, "devices": [device], "start": {"accuracy": 0.25}}


def results(accuracies, titles=TITLES, full=False, once=()) -> Results:
    """Return results of all methods with two seeds; ``accuracies``: by method, or by title and method."""
    by_name = {}
    for title in titles:
        for method in kws_ui.METHODS:
            name = f"{title}: {method}"
            accuracy = accuracies.get(name, accuracies.get(method, 0.5))
            by_name[name] = [
                (Run(name, seed, Call(kws_ui.runs)), Outcome(figures(method, accuracy, seed), 0.0, 1.0, {}))
                for seed in ((1,) if method in once else (1, 2))
            ]
    return Results(full, by_name)


def test_the_text_says_where_it_is_ahead_and_where_it_is_not():
    ahead = kws_ui.section(results({"FedKWS-UI": 0.88, "FedOPT": 0.6}))
    assert "never heard: +38.0 ± 0.0 (DSCNN, 12 steps); +38.0 ± 0.0 (" in in_short_of(ahead)
    assert "| FedKWS-UI | 89.5 ± 0.7 | 0.0 ± 0.0 | 0.25 / 20.0 | 50.0 ± 0.0 | 40.0 ± 0.0 | 95.0 | 10 |" in ahead
    assert "A device trains on 45 clips on average (30 to 60) and is visited 5.0 times. Seeds 1, 2." in ahead
    assert "| warm start | 25.0 ± 0.0 |" in ahead
    assert "| alone |  |  |  | 30.0 ± 0.0 | 30.0 ± 0.0 |  |  |" in ahead
    assert "- DSCNN, 12 steps: +28.0 ± 0.0 over FedOPT, the best of the four others; +38.0 ± 0.0 over FedAvg;" in ahead
    assert "- DSCNN, 12 steps, the first seed, own clips and strangers: public clips alone 30.0 and 30.0 %," in ahead
    claims = ahead.split(CLAIMS)[1]
    assert "| 12 local steps, each at its own rate: +28.0 ± 0.0 over FedOPT | yes |" in claims
    assert "FedAvg never; FedKWS-UI after 3 to 3 rounds in 2 of 2 seeds | in part |" in claims
    behind = kws_ui.section(results({"FedKWS-UI": 0.4, "FedMMD (logits)": 0.52})).split(CLAIMS)[1]
    assert "own rate: -12.0 ± 0.0 over FedMMD (logits) | no |" in behind
    assert "DSCNN, 12 steps: FedMMD (logits) +2.0; base, 50 steps: FedProx +0.0" in behind


def test_methods_of_one_seed_are_named_and_compared_with_that_seed():
    text = kws_ui.section(results({"FedKWS-UI": 0.6, "FedProx": 0.58}, once=("FedProx",)))
    assert "Seeds 1, 2; FedProx: 1 alone." in text
    assert "| FedProx | 59.0 | 0.0 |" in text
    assert "- DSCNN, 12 steps: +2.0 over FedProx, the best of the four others; +10.0 ± 0.0 over FedAvg;" in text
    assert "| 12 local steps, each at its own rate: +2.0 over FedProx | in part |" in text


def test_the_lead_at_equal_rates_is_told_from_the_lead_at_each_ones_best():
    low, high = kws_ui_tables.MANY_STEPS.values()
    found = {f"{high}: FedAvg": 0.55, f"{high}: FedOPT": 0.56, f"{low}: FedAvg": 0.6, "FedKWS-UI": 0.6}
    (claim,) = (one for one in claims_of(kws_ui.section(results(found))) if "50 local steps" in one.claim)
    assert "all at 0.01: +5.0 ± 0.0 over FedAvg, +4.0 ± 0.0 over FedOPT" in claim.ours
    assert claim.reproduced == "yes"
    assert "FedAvg +5.0 ± 0.0; FedOPT -6.0 ± 0.0; FedKWS-UI +0.0 ± 0.0" in claim.why
    assert "chose: +0.0 ± 0.0 over FedAvg" in claim.why
    assert "more than half of the lead is one of the rate" in claim.why


def test_the_full_scale_has_a_table_for_every_network_and_no_claims_of_the_small_one():
    text = kws_ui.section(results({}, ("12 classes, DSCNN", "35 classes, ResNet"), full=True))
    assert "### 35 classes, ResNet\n" in text
    assert "- 12 classes, DSCNN: +0.0 ± 0.0 over FedAvg" in text


def test_runs_go_on_from_one_warm_start_that_knows_something(bundles, tmp_path):
    bundle, folder = bundles["ann3"], tmp_path / "warm"
    data = DataSection("synthetic", clips=1200, classes=4, speakers=40, noise=0.5, public=0.3)
    found = []
    for strategy in ("fedavg", "fedkws_ui"):
        rounds = RoundsSection(count=1, strategy=strategy, seed=3, local={"steps": 1, "learning_rate": 1e-6})
        experiment = Experiment(data, FleetSection(devices=4), ModelSection(bundle), rounds)
        figures = from_warm_start(experiment, bundle, 0.02, 5, folder)
        found.append(figures["rounds"][-1]["accuracy"])
        assert figures["start"]["accuracy"] == pytest.approx(found[-1], abs=0.01)  # the round taught next to nothing
        (start,) = folder.iterdir()
        found.append(start.stat().st_mtime_ns)
    assert found[0] > 0.8
    assert found[0] == pytest.approx(found[2], abs=0.01)
    assert found[1] == found[3]  # made once
