"""`make test-pi`: a whole emulated board takes part in a round, although it is killed and its power is cut meanwhile.

It is installed from its Debian package, without a network but for the aggregator on this machine, hears a sound card
that loops back what is played, and trains under its unit's limits. Emulation shows what works and what fits into
memory, never how quick it is.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.arm.__main__ import CANNOT, CHECKOUT
from tests.arm.machine import ArmError, UnsuitableMachineError, require
from tests.board import system
from tests.board.board import Board
from tests.board.device import Device, prepare_share
from tests.support.aggregator_process import Aggregator

BUILD = CHECKOUT / "build"
MEMORY_LIMIT_MB = 150
# Training long enough to be interrupted twice, and short enough to be waited for.
SETTINGS = {"epochs": 12, "augmented_copies": 1, "distill_epochs": 1}
_DEADLINE_S = 7200
# How far into its training the device is when it is killed.
_INTO_TRAINING_S = 10
_PROGRAMS = ("qemu-system-arm", "mkfs.ext4", "depmod", "dpkg-deb", "systemctl")


def main(arguments: list[str]) -> int:
    """Return 0 where all is well, 77 where this machine cannot emulate."""
    parser = argparse.ArgumentParser(prog="python -m tests.board", description=__doc__)
    parser.add_argument("--bundle", default="base", help="the board's model, a ready bundle (base)")
    parser.add_argument("--keep", action="store_true", help="leave disk, console and logs behind, as after a failure")
    options = parser.parse_args(arguments)
    try:
        if missing := [name for name in _PROGRAMS if shutil.which(name) is None]:
            raise ArmError(
                f"not installed: {', '.join(missing)}; on Debian: apt-get install qemu-system-arm e2fsprogs kmod"
            )
        require()
        with Clock("the board's software is there"):
            system.build(BUILD / "board")
        folder = Path(tempfile.mkdtemp(dir=BUILD, prefix="board-run-"))
        board, aggregator = Board(BUILD / "board", folder), Aggregator(folder / "aggregator")
        try:
            take_part(board, aggregator, options.bundle)
        except ArmError:
            options.keep = True
            print(f"test-pi: disk, console and logs are in {folder}", file=sys.stderr)
            raise
        finally:
            board.cut_power()
            aggregator.kill()
            if not options.keep:
                shutil.rmtree(folder)
    except ArmError as error:
        print(f"test-pi: {error}", file=sys.stderr)
        return CANNOT if isinstance(error, UnsuitableMachineError) else 1
    return 0


def take_part(board: Board, aggregator: Aggregator, bundle: str) -> None:
    """Go through it all. Raises ArmError at the first thing that is not as it should be."""
    with Clock("package, model, clips and public set are there"):
        prepare_share(board.share, bundle, BUILD)
    device = Device(board)
    with Clock("the board has started"):
        board.power_on()
        board.run("true")
    with Clock("dpkg --install"):
        device.install()
    aggregator.start()
    with Clock("the service is active and has enrolled"):
        device.configure(aggregator.url)
        device.start()
        aggregator_knows(board, aggregator)
    with Clock("it has learned what its owner taught"):
        device.wait_until_taught()
    peaks = {"after teaching": device.memory()}
    round_id = open_round(aggregator, board.share / "public.safetensors")
    with Clock("it trains for a round"):
        trains = device.wait_for_training()
    time.sleep(_INTO_TRAINING_S)
    peaks["before it was killed"] = device.memory()
    with Clock("it was killed; systemd has started it again, and it trains again"):
        device.kill()
        board.wait(lambda: device.training() not in (None, trains), "the device trains again")
    time.sleep(_INTO_TRAINING_S)
    peaks["before the power cut"] = device.memory()
    if device.training() is None:
        raise ArmError("its training was over before its power was cut; make the round longer: SETTINGS")
    board.cut_power()
    with Clock("its power was cut; nobody logs in, and it listens again"):
        board.power_on()
        device.wait_until_it_listens()
    with Clock("it trains again"):
        device.wait_for_training()
    with Clock("the round is done, and the board has learned from it"):
        wait_until_done(board, aggregator, round_id)
    peaks["at the end"] = device.memory()
    report(device, peaks)


def aggregator_knows(board: Board, aggregator: Aggregator) -> None:
    with aggregator.client() as client:
        board.wait(lambda: client.get("/v1/devices").json(), "the board enrols")


def open_round(aggregator: Aggregator, public_set: Path) -> int:
    """Publish the public set and open a round; return its number."""
    with aggregator.client() as client:
        client.put("/v1/public-set", content=public_set.read_bytes()).raise_for_status()
        wanted = {"strategy": "zero_shot", "settings": SETTINGS, "deadline_s": _DEADLINE_S, "quorum": 1.0}
        return int(client.post("/v1/rounds", json=wanted).raise_for_status().json()["round_id"])


def wait_until_done(board: Board, aggregator: Aggregator, round_id: int) -> None:
    """Wait until the board's upload was taken and it has learned from the result."""
    with aggregator.client() as client:

        def learned() -> bool:
            found = client.get(f"/v1/rounds/{round_id}").json()
            if found["summary"]["state"] == "failed":
                raise ArmError(f"the round failed: {found['summary']['reason']}")
            return all(device["learned"] for device in found["participants"])

        board.wait(learned, "the round ends")


def report(device: Device, peaks: dict[str, dict[str, float]]) -> None:
    """Print the figures; refuse too large a memory."""
    device.is_well()
    for when, figures in peaks.items():
        print(f"memory of the unit {when}: " + ", ".join(f"{name} {value:.0f} MB" for name, value in figures.items()))
    most = max(figures["peak"] for figures in peaks.values())
    if most >= MEMORY_LIMIT_MB:
        raise ArmError(f"the unit's memory reached {most:.0f} MB; less than {MEMORY_LIMIT_MB} MB was promised")
    device.uninstall()
    print(f"test-pi passed; the unit's memory never reached more than {most:.0f} MB of {MEMORY_LIMIT_MB}")


class Clock:
    """Says how long something took."""

    def __init__(self, what: str):
        self._what = what

    def __enter__(self) -> None:
        self._start = time.monotonic()

    def __exit__(self, kind, *_) -> None:
        if kind is None:
            print(f"{time.monotonic() - self._start:6.0f} s  {self._what}", flush=True)


if __name__ == "__main__":
    os.umask(0o022)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that board and aggregator end too
    sys.exit(main(sys.argv[1:]))
