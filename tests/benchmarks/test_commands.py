"""Benchmarks as people run them, on few devices or takes: the figures that they promise, and a line for each."""

import json

import numpy as np
import pytest

from benchmarks.shared_codes import outcome
from tests.support.checkout import DATA, run_module

pytestmark = pytest.mark.slow


def measured(module, *options):
    """Run a benchmark; return its figures, and the lines before them."""
    done = run_module(f"benchmarks.{module}", *options, "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    *lines, figures = done.stdout.splitlines()
    return json.loads(figures), lines


def test_a_small_fleet_that_does_everything_at_once_goes_through_a_round_without_an_error():
    report, _ = measured("load", "--devices", "20")
    assert (report["devices"], report["errors"]) == (20, 0)
    figures = ("wake_s", "health_p99_ms", "admin_p99_ms", "upload_cpu_ms", "rss_mb")
    assert all(report[name] > 0 for name in figures), report


def test_a_small_fleet_goes_through_open_and_private_rounds_and_each_stage_has_its_bytes():
    report, _ = measured("load", "--devices", "5", "--private", "5", "--classes", "12")
    assert report["private_s"] > 0
    assert report["contribute_sent"] > 10 * report["upload_sent"] / 12  # every class, whichever a device has
    assert all(report[f"{stage}_received"] > 0 for stage in ("keys", "shares", "contribute", "unmask"))


def test_secure_sums_and_flowers_come_to_the_mean_and_lose_as_many_devices():
    rows, _ = measured("secure_sums", "--devices", "6", "--numbers", "50", "--lost", "0", "2", "3")
    assert [row["system"] for row in rows] == ["auricle"] * 3 + ["flower"] * 3
    assert all((row["error"] < 1e-4) == (row["lost"] < 3) for row in rows)


def test_simulated_fleets_have_figures_for_each_size(bundles):
    settings = ["--devices", "2", "5", "--rounds", "3", "--workers", "1"]
    results, lines = measured("simulation", "--bundle", bundles["ann3"], *settings)
    assert [result["devices"] for result in results] == [2, 5]
    for result in results:
        assert result["seconds_per_round"] > 0
        assert result["processor_ms"] >= 0  # a small fleet may take less than a tick of the clock
        assert result["peak_mb"] > 30
        assert any(line.startswith(f"devices {result['devices']} ") for line in lines)


def test_every_rule_has_its_time_in_plain_reads_and_its_memory():
    rows, lines = measured("aggregation", "--devices", "12", "--turns", "1")
    assert [row["rule"] for row in rows] == ["label_wise", "lpa", "median", "krum"]
    assert all(0 < row["reads"] <= row["all reads"] for row in rows)
    assert all(line.startswith(f"rule {row['rule']} ") for line, row in zip(lines, rows, strict=True))


def test_a_networks_epoch_stands_beside_kerass():
    (row,), _ = measured("training", "--architectures", "cnn2", "--turns", "1")
    assert row["of keras"] == pytest.approx(row["epoch_s"] / row["keras_s"])
    assert 0 < row["mb"] < row["keras_mb"]


def test_a_simulated_fleet_stands_beside_flowers(bundles):
    pytest.importorskip("ray", reason="Flower's engine runs on Ray, which this Python does not have")
    settings = ["--devices", "3", "--rounds", "3", "--workers", "1", "--beside-flower"]
    (row,), _ = measured("simulation", "--bundle", bundles["ann3"], *settings)
    assert row["flower_times"] == pytest.approx(row["flower_seconds"] / row["seconds_per_round"], rel=0.1, abs=0.1)


@pytest.mark.skipif(not (DATA / "gsc_v2_test").is_dir(), reason=f"there are no recordings in {DATA}")
def test_one_liar_of_ten_plants_no_word_and_takes_no_slot(tmp_path):
    chosen = ["--ways", "plant", "--liars", "1", "--seeds", "0", "--cache", tmp_path / "embeddings"]
    (row,), _ = measured("liars", *chosen)
    assert {name: row[name] for name in ("planted heard %", "slots lost")} == {"planted heard %": 0, "slots lost": 0}
    assert row["own heard %"] > 80
    assert row["of two others heard %"] > 0


@pytest.mark.skipif(not (DATA / "gsc_v2_test").is_dir(), reason=f"there are no recordings in {DATA}")
def test_the_more_devices_are_in_a_mean_the_less_often_it_tells_who_spoke(tmp_path):
    for word in ("yes", "go"):
        (tmp_path / word).symlink_to(DATA / "gsc_v2_test" / word)
    alone, many = measured("who_spoke", "--data", tmp_path, "--devices", "1", "30")[0]
    assert (alone["devices"], many["devices"], alone["draws"]) == (1, 30, 40)
    assert alone["told %"] > 70 > 45 > many["told %"]


def test_words_that_three_devices_have_a_code_of_are_agreed_on_and_those_that_share_one_are_mixed():
    codes = [
        [[1, 1, 1, 5], [2, 2, 3, 3], [4, 4, 6, 7], [7, 7, 8, 9]],
        [[0, 1, 2, 3], [4, 4, 4, 5], [6, 7, 8, 9], [10] * 4],
    ]
    assert outcome(np.array(codes)) == (0.75, 0.5)


def test_several_servers_without_a_database_that_they_share_are_refused():
    done = run_module("benchmarks.load", "--servers", "3")
    assert (done.returncode, "--database" in done.stderr) == (1, True)
