"""A network namespace for one server, with two cables: to its devices, and to its state, which can be pulled.

Packets are lost then: connections stay, nothing arrives, and nobody says so. It needs root.

python3.11 -m tests.support.network_room      # ends with 0 where there can be one, with 1 where not; needs no package
"""

import os
import shutil
import subprocess
import sys


def why_none() -> str | None:
    """Why there can be no room here; None where there can."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "needs root, and ip (apt install iproute2)"
    try:
        with Room():
            return None
    except subprocess.CalledProcessError as error:
        return f"no network namespaces, cables or routes here: {error.stderr.strip()}"


def run(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=True, text=True)


class Room:
    """The namespace. Its addresses are of 198.18.0.0/15, which is for tests of networks (RFC 2544); none leaves here.

    Attributes:
        state: Address of this side of the cable to the state.
        within: What runs a command in the room.
        options: Of a server in the room.
    """

    def __init__(self) -> None:
        number = os.getpid()
        self._name = f"auricle-{number}"
        self._cables = {f"au{which}{number}": f"198.{which}.{number % 256}" for which in (18, 19)}
        (self._state, here), (_, devices) = self._cables.items()
        self.state = f"{here}.1"
        self.within = ("ip", "netns", "exec", self._name)
        self.options = ("--host", f"{devices}.2", "--insecure-http")

    def __enter__(self) -> "Room":
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _build(self) -> None:
        run("netns", "add", self._name)
        run("-n", self._name, "link", "set", "lo", "up")
        for here, network in self._cables.items():
            there = here.replace("au", "ar")
            # Without it, what has no cable any more would leave by the way to everywhere.
            run("route", "add", "blackhole", f"{network}.0/30", "metric", "1000")
            run("link", "add", here, "type", "veth", "peer", "name", there, "netns", self._name)
            run("address", "add", f"{network}.1/30", "dev", here)
            run("-n", self._name, "address", "add", f"{network}.2/30", "dev", there)
            run("-n", self._name, "link", "set", there, "up")
            run("link", "set", here, "up")

    def __exit__(self, *_: object) -> None:
        for here, network in self._cables.items():
            run("link", "delete", here, check=False)
            run("route", "delete", "blackhole", f"{network}.0/30", "metric", "1000", check=False)
        run("netns", "delete", self._name, check=False)

    def pull(self) -> None:
        run("link", "set", self._state, "down")

    def plug(self) -> None:
        run("link", "set", self._state, "up")


if __name__ == "__main__":
    sys.exit(why_none())
