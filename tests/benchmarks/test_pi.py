"""The board's benchmark: figures for every architecture and thread count, and the truth about the machine."""

import json
import os
import platform

import pytest

from benchmarks.pi.machine import Machine, emulator
from tests.support.checkout import run_python

EMULATED = "AURICLE_TESTS_EMULATED"  # set where these tests themselves run under QEMU


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """What a small run of the benchmark prints without TensorFlow, and writes to its file."""
    file = tmp_path_factory.mktemp("bench") / "new" / "figures.json"
    options = f"--architectures cnn1 ann3 --threads 1 2 --samples 40 --clips 3 --output {file} --json"
    hidden = "import sys; sys.modules['tensorflow'] = None; from benchmarks.pi.__main__ import main; sys.exit(main())"
    return run_python("-c", hidden, *options.split()), json.loads(file.read_text())


def test_every_architecture_is_measured_with_every_number_of_threads(measured, bundles):
    output, report = measured
    assert json.loads(output.splitlines()[-1]) == report
    cases = [(result["architecture"], result["threads"]) for result in report["results"]]
    assert cases == [("cnn1", 1), ("cnn1", 2), ("ann3", 1), ("ann3", 2)]
    for result in report["results"]:
        assert result["train_seconds_per_epoch"] > 0
        assert 0 < result["inference_ms_median"] <= result["inference_ms_p95"]
        assert 0 < result["with_features_ms_median"] <= result["with_features_ms_p95"]
        assert result["feature_seconds_per_epoch"] > 0 < result["hop_ms_median"]
        assert 10 < result["peak_mb"] < 200
        assert result["bundle_kb"] == bundles[result["architecture"]].stat().st_size / 1000


def test_the_papers_figures_stand_beside_the_measured_ones_and_the_report_says_which_machine_they_are_of(measured):
    output, report = measured
    assert report["paper"] == {"train_seconds_per_epoch": 1.2, "inference_ms": 11, "model_kb": [520, 350, 270]}
    assert "models of 520, 350, 270 kB" in output
    machine = report["machine"]
    assert machine["architecture"] == platform.machine()
    assert machine["cores"] == len(os.sched_getaffinity(0))
    assert machine["model"] in output
    assert ("NOTHING about a real board" in output) == (machine["emulator"] is not None) == (EMULATED in os.environ)


def write(root, files):
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


PI = {
    "proc/device-tree/model": "Raspberry Pi 2 Model B Rev 1.1\0",
    "proc/cpuinfo": "model name\t: ARMv7 Processor rev 5\n",
}


@pytest.mark.parametrize(
    ("files", "sign"),
    [
        (PI | {"sys/block/mmcblk0/device/name": "QEMU!\n"}, "QEMU!"),
        (PI | {"proc/device-tree/model": "linux,dummy-virt\0"}, "dummy-virt"),
        ({"sys/class/dmi/id/sys_vendor": "QEMU\n", "proc/cpuinfo": ""}, "sys_vendor"),
    ],
)
def test_a_whole_emulated_machine_is_recognised(tmp_path, files, sign):
    assert sign in emulator(write(tmp_path, files))


def test_a_real_board_is_named_as_real(tmp_path):
    board = Machine.here(write(tmp_path, PI | {"sys/block/mmcblk0/device/name": "SU08G\n"}))
    assert (board.model, board.processor) == ("Raspberry Pi 2 Model B Rev 1.1", "ARMv7 Processor rev 5")
    assert (board.emulator, board.virtual) == (None, False)
    assert "Raspberry Pi 2 Model B Rev 1.1 (ARMv7 Processor rev 5)" in str(board)
    assert str(board).endswith("real hardware")


def test_a_program_for_another_processor_gives_the_emulator_away(tmp_path):
    (tmp_path / "proc/thread-self").mkdir(parents=True)
    (tmp_path / "proc/thread-self/exe").write_bytes(b"\x7fELF" + bytes(14) + (8).to_bytes(2, "little"))  # MIPS
    assert "user mode" in emulator(tmp_path)
