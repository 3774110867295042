"""The commands of docs/operating.md, "Move the server", typed while devices run: the fleet stays the same."""

import json
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from edge_client.config import load_config
from edge_client.storage.device_state import DeviceState
from tests.support.checkout import ROOT
from tests.support.commands import OwnDesk
from tests.support.desk import free_port
from tests.support.edge_process import wait_for
from tests.support.sounds import write_two_homes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
DATA, OPTIONS = "/var/lib/auricle-aggregator", "/etc/auricle/aggregator.env"
UNIT = (ROOT / "systemd/auricle-aggregator.service").read_text()


class Machine(OwnDesk):
    """A folder that stands for a machine with the service of the aggregator. What only root may do is left out."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.other, self.link, self.starts = None, "", 0
        (folder / "etc/auricle").mkdir(parents=True)

    def path(self, name: str) -> Path:
        return self.folder / name.lstrip("/")

    def read(self, block: str) -> None:
        for line in block.splitlines():
            self.enter(line)

    def enter(self, line: str) -> None:
        words = [self.path(word) if word in (DATA, OPTIONS) else word for word in shlex.split(line)]
        if words[0] == "sudo":
            words = words[3:] if words[1] == "-u" else words[1:]
        match words:
            case ["auricle-aggregator", *_]:
                done = self.type(shlex.join(map(str, words)))
                assert done.returncode == 0, done.stdout + done.stderr
                self.link = (re.findall(r"join (\S+)", done.stdout) or [self.link])[0]
            case ["systemctl", "disable" | "enable" as wanted, "--now", "auricle-aggregator", _]:
                self.start() if wanted == "enable" else self.end()
            case ["scp", *files, "USER@NEW:"]:
                for file in files:
                    shutil.copy(self.folder / file, self.other.folder)
            case ["make", "install-aggregator"]:  # tests/system/test_systemd.py types it
                self.path(DATA).mkdir(parents=True)
            case ["chown", "-R", "auricle-aggregator:", folder]:
                assert folder.is_dir()
            case ["install", *_]:
                subprocess.run(words, cwd=self.folder, check=True)
            case _:
                raise AssertionError(f"nobody has typed this: {line}")

    def start(self) -> None:
        """Start the server as the unit does."""
        options = dict(line.split("=", 1) for line in self.path(OPTIONS).read_text().splitlines())
        command = re.search(r"^ExecStart=\S+/(auricle-aggregator run .*)$", UNIT, re.MULTILINE)[1]
        for name, value in {"${STATE_DIRECTORY}": str(self.path(DATA)), "${AURICLE_HOST}": "127.0.0.1"}.items():
            command = command.replace(name, value)
        command = command.replace("${AURICLE_PORT}", options["AURICLE_PORT"])
        command = command.replace("$AURICLE_TLS", options["AURICLE_TLS"]).replace("$AURICLE_OPTIONS", "")
        self.starts += 1
        self.leave_running(command, f"{self.starts}.log")
        self.wait_for(f"{self.starts}.log", '"url"')

    def end(self) -> None:
        """End what was left running."""
        for process in self._running:
            process.send_signal(signal.SIGTERM)
            process.wait(120)
        self._running.clear()

    def ask(self, command: str) -> list[dict]:
        return json.loads(self.type(f"auricle-aggregator {command} --data {self.path(DATA)} --json").stdout)

    def have_a_round(self) -> None:
        done = self.type(f"auricle-aggregator round start --learned --data {self.path(DATA)}")
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def machines(tmp_path):
    """The old machine, the new one, and one for each device."""
    found = {name: Machine(tmp_path / name) for name in ("old", "new", "kitchen", "hall")}
    yield found
    for machine in found.values():
        machine.close()


def join(machine: Machine, recordings: Path) -> None:
    """Have a device join that asks often."""
    joined = machine.type(f"auricle-edge join {machine.link} --recordings {recordings} --config edge.toml")
    assert joined.returncode == 0, joined.stdout + joined.stderr
    config = machine.folder / "edge.toml"
    config.write_text(config.read_text().replace("[server]\n", "[server]\nwait_s = 1\nlongest_pause_s = 1\n"))
    run(machine)


def run(machine: Machine) -> None:
    machine.end()
    machine.leave_running("auricle-edge run --config edge.toml", "device.log")
    machine.wait_for("device.log", "enrolled as")


def identity(machine: Machine):
    return DeviceState(load_config(machine.folder / "edge.toml").device.state).identity.load()


def test_a_fleet_moves_by_the_commands_of_the_page_while_its_devices_run(machines, tmp_path):
    old, new, kitchen, hall = machines.values()
    section = (ROOT / "docs/operating.md").read_text().split("\n## Move the server\n")[1].split("\n## ")[0]
    on_the_old, on_the_new, invite, on_each = BLOCK.findall(section)
    write_two_homes(tmp_path)
    port, other_port = free_port(), free_port()
    made = old.type(
        f"auricle-aggregator new --from {tmp_path}/recordings --data {old.path(DATA)} --tls auto --port {port}"
    )
    assert made.returncode == 0, made.stderr
    old.path(OPTIONS).write_text(f"AURICLE_PORT={port}\nAURICLE_TLS=--tls auto\n")
    old.start()
    (kitchen.link,) = re.findall(r"join (\S+)", made.stdout)
    hall.link = kitchen.link
    join(kitchen, tmp_path / "kitchen")
    join(hall, tmp_path / "hall")
    old.have_a_round()
    known, names = old.ask("devices list"), {identity(kitchen), identity(hall)}
    invitation = json.loads(old.type(f"auricle-aggregator invite --data {old.path(DATA)} --json").stdout)["link"]

    # To another folder, with the address that the devices know; they are left alone.
    old.other = new
    old.read(on_the_old)
    before = [machine._running[0].pid for machine in (kitchen, hall)]
    wait_for(
        lambda: "does not answer" in kitchen.folder.joinpath("device.log").read_text(), what="the server's absence"
    )
    new.read(on_the_new)
    new.have_a_round()
    assert [machine._running[0].poll() for machine in (kitchen, hall)] == [None, None]
    assert [machine._running[0].pid for machine in (kitchen, hall)] == before
    assert [(info["round_id"], info["uploaded"]) for info in new.ask("rounds")] in ([(2, 2), (1, 2)], [(1, 2), (2, 2)])

    # To another port: the devices are told.
    new.end()
    new.path(OPTIONS).write_text(f"AURICLE_PORT={other_port}\nAURICLE_TLS=--tls auto\n")
    new.start()
    new.read(invite)
    assert f":{other_port}/" in new.link
    for machine in (kitchen, hall):
        for line in on_each.replace("LINK", f"{new.link} --config edge.toml").splitlines():
            if "systemctl restart" in line:
                run(machine)
                continue
            joined = machine.type(line.removeprefix("sudo "))
            assert joined.returncode == 0, joined.stdout + joined.stderr
    new.have_a_round()
    assert {identity(kitchen), identity(hall)} == names
    assert {info["device_id"] for info in new.ask("devices list")} == {info["device_id"] for info in known}
    assert max(info["round_id"] for info in new.ask("rounds")) == 3

    # An invitation from before the move is good for the new address.
    third = machines["old"]
    third.link = invitation.replace(f":{port}/", f":{other_port}/")
    join(third, tmp_path / "kitchen")
    assert len(new.ask("devices list")) == 3
