"""Instruction counts on ARMv7: reached targets, repeatable, and clear about what a machine lacks."""

import json
import os
import re
import shutil

import pytest

from benchmarks.arm_instructions import history
from benchmarks.arm_instructions.private import MEASUREMENTS, calls
from benchmarks.bundles import find_bundles, given_bundles
from benchmarks.command import BenchmarkError
from tests.support.checkout import ROOT, run_module, run_python

ARMV7_ROOT = ROOT / "build" / "armv7-root"


@pytest.fixture
def emulator():
    """Skip where the emulator, the compiler or the root is missing."""
    for program, package in {"qemu-arm": "qemu-user", "gcc": "gcc"}.items():
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (Debian's package {package})")
    if not (ARMV7_ROOT / "usr/bin/python3.11").exists():
        pytest.skip("there is no ARMv7 root; `make armv7-root` builds one")


def counts(*bundles):
    output = run_python("-m", "benchmarks.arm_instructions", "--json", "--bundles", *map(str, bundles))
    return json.loads(output.splitlines()[-1])


@pytest.mark.slow
def test_cnn2_reaches_the_targets_again_and_again_and_a_smaller_network_takes_fewer(emulator, bundles):
    (large,), (again, small) = counts(bundles["cnn2"]), counts(bundles["cnn2"], bundles["ann3"])
    assert (large.pop("architecture"), again.pop("architecture"), small["architecture"]) == ("cnn2", "cnn2", "ann3")
    assert large == pytest.approx(again, rel=1e-2)  # where memory lies changes the count by some thousandths
    assert 0.1 < large["inference_minstructions"] <= 0.5
    assert 0.2 < large["train_minstructions_per_sample"] <= 0.9
    for figure in ("train_minstructions_per_sample", "inference_minstructions"):
        assert 0 < small[figure] < large[figure]
    assert small["front_end_minstructions_per_hop"] < small["front_end_minstructions_per_clip"]


@pytest.mark.slow
def test_the_network_of_a_front_end_is_counted_with_it(emulator, embedding_bundles):
    (figures,) = counts(embedding_bundles / "embedding.auricle")
    assert figures["architecture"] == "embedding"
    hop, clip = (figures[f"front_end_minstructions_per_{what}"] for what in ("hop", "clip"))
    assert 0.1 < figures["network_minstructions"] < hop < clip


def test_the_stages_of_a_private_round_that_are_counted_can_be_done_again_and_again(tmp_path):
    measured = calls(tmp_path, classes=12, group=5)
    assert ("import", *measured) == MEASUREMENTS
    for stage in measured.values():
        stage()
        stage()


@pytest.mark.parametrize(
    ("options", "programs", "message"),
    [
        ([], [], "qemu-arm is not installed; on Debian: apt-get install qemu-user"),
        (["--root", "nowhere"], ["qemu-arm"], "nowhere is no ARMv7 root.*make armv7-root"),
    ],
)
def test_what_the_machine_lacks_is_named_with_the_way_out(tmp_path, options, programs, message):
    for program in programs:
        (tmp_path / program).write_text("#!/bin/sh\n")
        (tmp_path / program).chmod(0o755)
    result = run_module("benchmarks.arm_instructions", *options, env={**os.environ, "PATH": str(tmp_path)})
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert re.search(message, result.stderr)


def test_bundles_are_files_folders_or_what_is_wanted_of_a_folder_and_an_absent_one_is_named(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(BenchmarkError, match="has no cnn1"):
        given_bundles([tmp_path / "empty"], None)
    for name in ("a", "b"):
        (tmp_path / f"{name}.auricle").touch()
    with pytest.raises(BenchmarkError, match=r"has no cnn2\.auricle; .*auricle-export build cnn2 --features"):
        find_bundles(tmp_path, ["a", "cnn2"])
    assert list(given_bundles([tmp_path], None)) == ["a", "b"]
    assert list(given_bundles([tmp_path], ["b"])) == ["b"]
    assert given_bundles([tmp_path / "b.auricle"], None) == {"b": tmp_path / "b.auricle"}


def test_what_history_reads_of_a_journal_is_what_its_page_shows(tmp_path):
    history.write(tmp_path / "state.sqlite3")
    found = {name: read() for name, read in history.calls(tmp_path / "state.sqlite3").items()}
    assert tuple(found) == history.MEASUREMENTS
    assert sum(found["counts"].values()) == pytest.approx(14 * 86_400 / 77.76, abs=30)
    assert len(found["newest"]) == len(found["remarks"]) == 100
    assert (len(found["names"][0]), found["names"][1]) == (12, [])
