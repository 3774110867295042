"""An emulated board: QEMU with two Cortex-A7 and 1 GB: a Raspberry Pi 2 but for its chipset, and a shared folder."""

import itertools
import subprocess
import time
from pathlib import Path

from tests.arm.machine import ArmError

_MACHINE = (
    "-machine virt -cpu cortex-a7 -smp 2 -m 1024 -nographic -no-reboot -device virtio-blk-device,drive=disk "
    "-device virtio-9p-device,fsdev=share,mount_tag=share -device virtio-net-device,netdev=net"
)
# Bounds a hang alone: installing the package takes half of it where other programs keep the machine busy.
HANG_S = 3600


class Board:
    """A board with a disk of its own, whose power can be cut; ``share`` is /share on it."""

    def __init__(self, system: Path, folder: Path):
        self._system = system
        self._folder = folder
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self.share = folder / "share"
        self._jobs = self.share / "jobs"
        self._jobs.mkdir(parents=True)
        subprocess.run(["cp", "--sparse=always", system / "disk.img", folder / "disk.img"], check=True)

    def power_on(self) -> None:
        """Start the board; its console is appended to console.log."""
        for path in self._jobs.iterdir():
            path.unlink()
        options = {
            "-kernel": self._system / "kernel",
            "-initrd": self._system / "initramfs",
            "-append": "console=ttyAMA0 quiet panic=-1 net.ifnames=0 systemd.show_status=no",
            "-drive": f"file={self._folder / 'disk.img'},format=raw,if=none,id=disk",
            "-fsdev": f"local,id=share,path={self.share},security_model=none",
            "-netdev": "user,id=net",
        }
        command = ["qemu-system-arm", *_MACHINE.split(), *(word for pair in options.items() for word in pair)]
        with (self._folder / "console.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def cut_power(self) -> None:
        """Kill the emulator: whatever the board had not written to its disk is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def run(self, script: str, check: bool = True) -> str:
        """Run a shell script on the board; return what it prints. Raises ArmError where it fails or hangs."""
        job = self._jobs / f"{next(self._numbers):04d}"
        job.with_suffix(".part").write_text(script + "\n")
        job.with_suffix(".part").rename(job.with_suffix(".sh"))
        status = job.with_suffix(".status")
        self.wait(status.exists, f"the board runs: {script}")
        output = job.with_suffix(".out").read_text(errors="replace")
        if check and int(status.read_text()):
            raise ArmError(f"on the board failed: {script}\n{output[-6000:]}")
        return output

    def wait(self, condition, what: str) -> None:
        """Wait until something holds. Raises ArmError where it does not in time, or the board ends."""
        deadline = time.monotonic() + HANG_S
        while not condition():
            if self._process is None or self._process.poll() is not None:
                raise ArmError(f"the board ended while waiting ({what}); its console: {self._folder / 'console.log'}")
            if time.monotonic() > deadline:
                raise ArmError(f"gave up after {HANG_S} s ({what})")
            time.sleep(0.5)
