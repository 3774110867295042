"""The device on the board: what its owner types, and what the service does."""

import json
import shutil
import sys
import wave
from pathlib import Path

from demo import corpus
from fleet_protocol.ready_bundles import find_bundle
from tests.arm.__main__ import CHECKOUT
from tests.arm.machine import ArmError, run
from tests.board.board import Board
from tests.support.aggregator_process import ENROL

LABELS = ("yes", "no", "stop")
_SPEAKERS, _TAKES, _PUBLIC_SPEAKERS = 12, 3, 8
_STATUS = "/run/auricle/status.json"
_CGROUP = "/sys/fs/cgroup/system.slice/auricle-edge.service"
_CONFIGURATION = """\
[device]
name = "board"
state = "/var/lib/auricle"
[model]
bundle = "/etc/auricle/model.auricle"
[server]
url = "{url}"
insecure_http = true
[microphone]
device = "hw:0,1"
[detector]
hop_s = 1.0
[recordings]
per_round = [20, 30]
[training]
teach_epochs = 10
"""
# A sound card that gives back what is played into it, and somebody who plays.
_ROOM = """\
[Service]
ExecStart=/usr/bin/aplay -q -D plughw:CARD=Loopback,DEV=0 /var/lib/room.wav
Restart=always
RestartSec=0
[Unit]
StartLimitIntervalSec=0
[Install]
WantedBy=multi-user.target
"""
_MEMORY = f"""
cd {_CGROUP}
echo current $(cat memory.current)
echo peak $(cat memory.peak)
awk '$1 == "anon" || $1 == "file" || $1 == "kernel" {{ print $1, $2 }}' memory.stat
for pid in $(cat cgroup.procs); do
    awk -v pid=$pid '/^Pss:/ {{ print "process-" pid, $2 * 1024 }}' /proc/$pid/smaps_rollup
done
"""


def prepare_share(share: Path, bundle: str, build: Path) -> None:
    """Put the Debian package, a model, clips and a public set where the board and its aggregator find them."""
    run(sys.executable, "-m", "deb", "armhf", "--output", share, cwd=CHECKOUT)
    shutil.copyfile(find_bundle(bundle), share / "model.auricle")
    clips = corpus.cached(build, LABELS, _SPEAKERS, _TAKES, seed=1)
    shutil.copytree(clips, share / "clips")
    _join(sorted(clips.glob("*/*.wav"))[::2], share / "room.wav")
    public = corpus.cached(build, LABELS, _PUBLIC_SPEAKERS, 1, seed=2)
    options = ("--bundle", bundle, "--per-label", str(_PUBLIC_SPEAKERS), "-o", share / "public.safetensors")
    run(sys.executable, "-m", "edge_client.cli", "public-set", public, *options, cwd=CHECKOUT)


def _join(paths: list[Path], target: Path) -> None:
    with wave.open(str(target), "wb") as joined:
        for path in paths:
            with wave.open(str(path), "rb") as clip:
                if not joined.getnframes():
                    joined.setparams(clip.getparams())
                joined.writeframes(clip.readframes(clip.getnframes()))


class Device:
    """The service on a board."""

    def __init__(self, board: Board):
        self._board = board

    def install(self) -> None:
        said = self._board.run("dpkg --install /share/auricle-edge_*_armhf.deb")
        if "enable --now auricle-edge" not in said:
            raise ArmError(f"the package does not say what is left to do:\n{said}")

    def configure(self, url: str) -> None:
        share = self._board.share
        (share / "edge.toml").write_text(_CONFIGURATION.format(url=url.replace("127.0.0.1", "10.0.2.2")))
        (share / "edge.env").write_text(f"AURICLE_ENROL_TOKEN={ENROL}\n")
        (share / "room.service").write_text(_ROOM)
        self._board.run(
            "set -e; cp /share/model.auricle /share/edge.toml /share/edge.env /etc/auricle\n"
            "cp /share/room.wav /var/lib; cp /share/room.service /etc/systemd/system\n"
            "install -d -m 0700 /var/lib/auricle/clips; cp -r /share/clips/. /var/lib/auricle/clips\n"
            "chown -R auricle: /var/lib/auricle; systemctl enable --now room; sync"
        )

    def start(self) -> None:
        """Start it, now and at every boot; returns when it says that it is ready."""
        self._board.run("systemctl enable --now auricle-edge || { journalctl -u auricle-edge; exit 1; }")

    def training(self) -> int | None:
        """Return the process that trains for a round."""
        text = self._board.run(
            f"cat {_STATUS} && grep -lz edge_client.learning.worker /proc/[0-9]*/cmdline", check=False
        )
        status, _, found = text.partition("\n")
        if not found or "contribute" not in str(json.loads(status)["training"]["training"]):
            return None
        return int(found.split("/")[2])

    def wait_until_taught(self) -> None:
        """Wait until it has learned what its owner taught: the clips that were there when it started."""

        def taught() -> bool:
            status = self.status()
            return len(status["model"]["labels"]) == len(LABELS) and status["training"]["training"] is None

        self._board.wait(taught, "the device learns what its owner taught")

    def wait_for_training(self) -> int:
        self._board.wait(self.training, "the device trains")
        return self.training() or 0

    def wait_until_it_listens(self) -> None:
        """Wait until it hears something and knows its labels, which nobody but systemd can have started."""

        def listens() -> bool:
            found = self._board.run(f"cat {_STATUS}", check=False)  # of this start: /run is in memory
            status = json.loads(found) if found.startswith("{") else {}
            return bool((status.get("listening") or {}).get("frames")) and len(status["model"]["labels"]) == len(LABELS)

        self._board.wait(listens, "the device listens")

    def kill(self) -> None:
        self._board.run("systemctl kill --signal=SIGKILL --kill-who=all auricle-edge")

    def memory(self) -> dict[str, float]:
        """Return what the kernel counts for the unit, and of each process its share of what is in memory, in MB."""
        lines = (line.split() for line in self._board.run(_MEMORY).splitlines())
        return {name: int(value) / 2**20 for name, value in lines}

    def status(self) -> dict:
        return json.loads(self._board.run(f"cat {_STATUS}"))

    def is_well(self) -> None:
        """Raise ArmError unless it hears something, and says itself that it is well."""
        said = self._board.run("auricle-edge status")
        listening = self.status()["listening"]
        if not listening or not listening["frames"]:
            raise ArmError(f"the device hears nothing:\n{said}")
        print(said)

    def uninstall(self) -> None:
        """Remove it while it runs: its data stays; then with all that is its own."""
        self._board.run(
            "set -e; dpkg --remove auricle-edge\n"
            "if systemctl is-active auricle-edge; then exit 1; fi\n"
            "test ! -e /opt/auricle-edge -a ! -e /usr/local/bin/auricle-edge\n"
            "test -e /var/lib/auricle/identity.json -a -e /etc/auricle/edge.toml; getent passwd auricle\n"
            "dpkg --purge auricle-edge; test ! -e /var/lib/auricle -a ! -e /etc/auricle; ! getent passwd auricle"
        )
