"""A network namespace for one server, with two cables: to its devices, and to its state, which can be pulled.

Packets are lost then: connections stay, nothing arrives, and nobody says so. It needs root.
"""

import os
import shutil
import subprocess


def why_none() -> str | None:
    """Why there can be no room here; None where there can."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "needs root, and ip (apt install iproute2)"
    probe = f"auricle-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"no network namespaces here: {made.stderr.strip()}"
    run("netns", "delete", probe)
    return None


def run(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Room:
    """The namespace. Its addresses are of 198.18.0.0/15, which is for tests of networks (RFC 2544).

    Attributes:
        state: Address of this side of the cable to the state.
        within: What runs a command in the room.
        options: Of a server in the room.
    """

    def __init__(self) -> None:
        self._name = f"auricle-{os.getpid()}"
        self.state, address = "198.18.0.1", "198.19.0.2"
        self.within = ("ip", "netns", "exec", self._name)
        self.options = ("--host", address, "--insecure-http", "--no-announce")

    def __enter__(self) -> "Room":
        run("netns", "add", self._name)
        run("-n", self._name, "link", "set", "lo", "up")
        for cable, network in (("state", "198.18.0"), ("devices", "198.19.0")):
            here, there = self._end(cable), self._end(cable).replace("au", "ar")
            run("link", "add", here, "type", "veth", "peer", "name", there, "netns", self._name)
            run("address", "add", f"{network}.1/30", "dev", here)
            run("-n", self._name, "address", "add", f"{network}.2/30", "dev", there)
            run("-n", self._name, "link", "set", there, "up")
            run("link", "set", here, "up")
        return self

    def __exit__(self, *_) -> None:
        for cable in ("state", "devices"):
            run("link", "delete", self._end(cable))
        run("netns", "delete", self._name)

    def pull(self) -> None:
        run("link", "set", self._end("state"), "down")

    def plug(self) -> None:
        run("link", "set", self._end("state"), "up")

    @staticmethod
    def _end(cable: str) -> str:
        return f"au{cable[0]}{os.getpid()}"  # at most 15 characters
