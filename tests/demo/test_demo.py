"""The demonstration, run as people run it, on a small synthesised corpus; and how it fails."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from demo import DemoError
from demo.devices import Report, new_classes
from demo.fleet import Fleet
from tests.support.checkout import ROOT, without_tensorflow
from tests.support.edge_process import wait_for
from tests.support.sounds import write_clips

pytestmark = pytest.mark.slow

ROUNDS = 3


def demo(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "demo", "--rounds", str(ROUNDS), *arguments]


def run_demo(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(demo(*arguments), cwd=ROOT, capture_output=True, text=True, check=False, env=environment)


def processes_below(folder: Path) -> list[int]:
    """Running processes that have a path below a folder on their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    """One short run that the tests below look at."""
    folder = tmp_path_factory.mktemp("demo")
    files = ("--report", str(folder / "report.html"), "--json", str(folder / "figures.json"))
    result = run_demo("--speakers", "28", *files, environment=without_tensorflow(folder))
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout, json.loads((folder / "figures.json").read_text()), (folder / "report.html").read_text()


def fleets(figures):
    return figures, figures["base"], figures["sounds"]


def test_the_figures_have_the_promised_form(small_run):
    _, figures, _ = small_run
    assert set(figures) == {"users", "average", "rounds", "new_classes", "recognition", "seconds", "base", "sounds"}
    assert set(figures["base"]) == set(figures["sounds"]) == set(figures) - {"base", "sounds"}
    assert [user["architecture"] for user in figures["base"]["users"]] == ["base", "base_hidden", "base"]
    assert [user["architecture"] for user in figures["sounds"]["users"]] == ["sounds"] * 3
    networks = {user["architecture"]: len(user["labels"]) for user in figures["users"]}
    assert list(networks.items()) == [("cnn2", 4), ("cnn3", 4), ("dscnn3", 4)]
    listening = {"alone", "after", "with_new", "never_heard"}
    assert set(figures["users"][0]) == {"name", "architecture", "labels"} | listening
    assert set(figures["average"]) == listening
    for found in fleets(figures):
        rows = [row for outcome in found["rounds"] for row in outcome["users"]]
        assert len(rows) == 3 * ROUNDS
        for name in ("local_accuracy", "global_accuracy"):  # the recommended strategy has no consensus
            assert all(row[name] is None if found is not figures else 0 <= row[name] <= 100 for row in rows)
    assert [outcome["round"] for outcome in figures["rounds"]] == [1, 2, 3]
    assert figures["seconds"] > 0


def test_new_sounds_are_found_when_devices_meet_them_and_matched(small_run):
    output, figures, _ = small_run
    for found in fleets(figures):
        first, second = ("telephone", "vacuum_cleaner") if found is figures["sounds"] else ("stop", "go")
        assert found["new_classes"] == [
            {"label": first, "devices": ["user 1", "user 2"], "round": 2, "matched": True},
            {"label": second, "devices": ["user 2"], "round": 3, "matched": True},
        ]
    assert [played["appeared"] for played in figures["rounds"]] == [[], ["stop"], ["stop", "go"]]
    assert "paper: 200 to 300" in " ".join(output.split())


def test_every_user_hears_what_it_gains_in_every_fleet(small_run):
    output, figures, page = small_run
    base = figures["base"]
    for found in fleets(figures):
        assert all(0 <= user[name] <= 100 for user in found["users"] for name in ("alone", "after", "with_new"))
        assert all(user["with_new"] <= user["after"] for user in found["users"])  # a choice of more is no easier
        assert [user["never_heard"] is None for user in found["users"]] == [False, True, False]  # user 2 meets both
        for name in ("alone", "after"):
            assert found["average"][name] == pytest.approx(sum(user[name] for user in found["users"]) / 3)
    for found in (base, figures["sounds"]):
        assert min(user["alone"] for user in found["users"]) > 80  # the front end knows sounds before any round
    assert base["average"]["after"] > figures["average"]["after"]
    for text in (output, page):
        assert "What each device listens with" in text
        assert f"{base['users'][0]['alone']:.1f}" in text
    for found in fleets(figures):
        # The first new sound by user 3, the second by users 1 and 3.
        assert len([row for row in found["recognition"] if not row["heard"]]) == 3


def test_the_report_is_whole_and_asks_nothing_of_a_network(small_run):
    _, figures, page = small_run
    visible = re.sub(r"data:image/png;base64,[A-Za-z0-9+/=\s]*", "", page)
    assert "//" not in re.sub(r"<style>.*?</style>", "", visible, flags=re.DOTALL)
    assert "<script" not in page
    assert page.count("<svg") == 3
    for text in (*(f"{key}: accuracy by round" for key in ("published", "base", "sounds")), "matched rightly"):
        assert text in page
    assert f"{figures['average']['with_new']:.1f}" in page


@pytest.mark.parametrize(
    ("count", "arguments", "message"),
    [(40, ("--new", "up,left"), "must be new, not up, left"), (60, ("--sounds", "/nowhere"), "/nowhere is no folder")],
)
def test_recordings_that_do_not_suffice_are_refused_before_anything_starts(tmp_path, count, arguments, message):
    """tests/demo/test_split.py has what else does not suffice."""
    for label in ("yes", "no", "up", "down"):
        write_clips(tmp_path / "data", label, count, seed=0)
    result = run_demo("--data", str(tmp_path / "data"), "--report", str(tmp_path / "report.html"), *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert not (tmp_path / "report.html").exists()


def test_a_process_that_dies_fails_the_fleet_and_leaves_nothing_running(tmp_path):
    config = tmp_path / "device.toml"
    config.write_text("[device]\nname = 'user 1'\n")

    def start_and_wait():
        with Fleet(tmp_path, 600, threading.Event()) as fleet:
            assert processes_below(tmp_path)
            fleet.start_device("user 1", config)
            fleet.wait_for_devices({"user 1"})

    with pytest.raises(DemoError, match=r"(?s)user-1 ended with status 1; log: .*user-1\.log.*needs the key 'state'"):
        start_and_wait()
    assert processes_below(tmp_path) == []


def test_a_run_that_is_told_to_stop_stops_what_it_started(tmp_path):
    before = set((ROOT / "build" / "demo").glob("*"))
    with (tmp_path / "output").open("w") as output:
        command = demo("--speakers", "28", "--report", str(tmp_path / "report.html"))
        child = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
    try:
        folder = until(lambda: next(iter(set((ROOT / "build" / "demo").glob(f"*-{child.pid}")) - before), None), child)
        until(lambda: len(processes_below(folder)) >= 4, child)  # the aggregator and three devices
        os.kill(child.pid, signal.SIGTERM)
        assert child.wait(180) == 1
    finally:
        child.kill()
        child.wait()
    assert processes_below(folder) == []
    assert "FAILED" in (tmp_path / "output").read_text()


def until(condition, child):
    """Wait for something while a process runs."""
    found = wait_for(lambda: condition() or child.poll() is not None, 300)
    assert child.poll() is None, "the run ended before it was told to"
    return found


OWNERS = {"stop": ("user 1", "user 2"), "go": ("user 2",)}


def test_a_sound_is_matched_when_all_who_met_it_got_one_class_of_its_own():
    reports = [
        Report(4, "user 1", "stop", "c8"),
        Report(4, "user 2", "stop", None),
        Report(5, "user 2", "stop", "c8"),
        Report(8, "user 2", "go", "c9"),
    ]
    stop, go = new_classes(reports, OWNERS)
    assert (stop.class_id, stop.round, stop.matched) == ("c8", 4, True)
    assert (go.class_id, go.round, go.matched) == ("c9", 8, True)


@pytest.mark.parametrize(
    ("reports", "matched"),
    [
        ([("user 1", "stop", "c8"), ("user 2", "stop", "c9"), ("user 2", "go", "c10")], [False, True]),  # torn apart
        ([("user 1", "stop", "c8"), ("user 2", "stop", "c9"), ("user 2", "go", "c8")], [False, False]),  # mixed up
        ([("user 1", "stop", "c8"), ("user 2", "go", "c9")], [False, True]),  # one was never answered
        ([("user 2", "go", "c8")], [False, True]),  # not found at all
    ],
)
def test_wrong_matches_are_told(reports, matched):
    assert [item.matched for item in new_classes([Report(4, *report) for report in reports], OWNERS)] == matched
