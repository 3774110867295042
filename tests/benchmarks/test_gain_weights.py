"""`benchmarks.gain --fleets weights`: its rows come from runs of the simulator, which are kept."""

from dataclasses import replace

import pytest

from benchmarks.bundles import BenchmarkError
from benchmarks.gain import shared_weights
from benchmarks.gain.kept_runs import figures_of
from benchmarks.gain.shared_weights import FLEETS
from fleet_simulator.experiment.sections import BaselinesSection, DataSection, FleetSection, ModelSection
from studies.simulated import simulated
from tests.support.tiny_study import NoTraining, TinyStudy


@pytest.fixture
def scale(tmp_path):
    return NoTraining(False, tmp_path)


def test_every_strategy_that_shares_weights_and_the_recommended_plan_have_a_run_for_each_seed(scale):
    runs = shared_weights.runs(scale, [1, 2])
    assert len({run.digest for run in runs}) == len(runs) == 2 * sum(len(fleet.methods) for fleet in FLEETS)
    strategies = {run.work.rounds.strategy for run in runs}
    assert strategies == {"fedavg", "fedprox", "fedopt", "fedmmd", "fedmlac", "fedkws_ui"}
    plan = next(run.work for run in runs if run.name == "fifty devices: recommended, without the guard")
    assert plan.rounds.plan.aggregation.name == "screened_mean"
    assert plan.rounds.plan.local.settings["rehearsal_by"] == "labels"
    assert plan.personal.name == "local"


def test_rows_are_means_over_seeds_beside_what_devices_have_without_a_fleet(scale, bundles, tmp_path):
    fleet = FLEETS[0]

    def tiny(name, seed):
        bundle = {shared_weights.PLUG_IN: bundles["ann3"]}
        whole = shared_weights.experiment(fleet, fleet.methods[name], bundle, scale, seed)
        small = replace(
            whole,
            data=DataSection("synthetic", clips=400, classes=4, speakers=40, noise=1.0, public=0.2),
            fleet=FleetSection(devices=5, held_out=0.4),
            model=ModelSection(bundles["ann3"]),
            rounds=replace(whole.rounds, count=2),
            baselines=BaselinesSection(passes=2) if whole.baselines else None,
        )
        return simulated(small, tmp_path / "run")

    found = {name: [tiny(name, seed) for seed in (1, 2)] for name in fleet.methods}
    rows = dict(shared_weights.rows(fleet, found))
    assert list(rows) == [
        "alone",
        "public only",
        "own and public",
        "recommended, without the guard",
        "recommended",
        "fedavg",
        "fedprox",
        "fedopt",
        "fedmmd",
        "fedmlac",
        "fedkws_ui",
    ]
    assert rows["alone"]["worse_than_alone"] == 0
    for seed, figures in enumerate(found[fleet.judge]):
        assert all(0 <= entry[f"{kind}_strangers"] <= 1 for entry in figures["devices"] for kind in ("alone", "both"))
        assert len(figures["devices"]) == 5, seed
    own = [100 * entry["listening_own"] for figures in found["fedavg"] for entry in figures["devices"]]
    assert rows["fedavg"]["own"] == pytest.approx(sum(own) / len(own))
    worse = sum(entry["guarded_own"] < entry["alone_own"] for one in found[fleet.judge] for entry in one["devices"])
    assert rows["recommended"]["worse_than_alone"] == worse / 2


def test_what_was_run_is_kept_and_what_failed_is_named(bundles, tmp_path):
    table = TinyStudy(bundles["ann3"], tmp_path)
    runs = [run for run in table.runs(None) if run.name == "counted"]
    (tmp_path / "broken").touch()
    with pytest.raises(BenchmarkError, match=r"(?s)counted, seed 2: .*seed 2 is broken"):
        figures_of(runs[1:], tmp_path / "kept", 1)
    (tmp_path / "broken").unlink()
    for _ in range(2):
        assert figures_of(runs, tmp_path / "kept", 1) == {"counted": [{"share": 0.1}, {"share": 0.2}]}
    assert sorted(table.calls.read_text().split()) == ["1", "2", "2"]
