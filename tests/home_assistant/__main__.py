"""`make test-home-assistant`: a device beside Home Assistant itself, a broker and a real satellite.

Status: 0 where all holds, 1 where something does not, or where Home Assistant cannot be had.
"""

import contextlib
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.arm.machine import ArmError
from tests.home_assistant import environment
from tests.home_assistant.checks import CHECKS
from tests.home_assistant.house import House
from tests.support.mqtt_broker import MOSQUITTO
from tests.support.sound_server import missing_parts


def main(arguments: list[str]) -> int:
    """Arguments choose checks by parts of their names, besides the first. SATELLITE is what pip installs as one."""
    if missing := ", ".join(filter(None, [missing_parts(), "" if MOSQUITTO else "mosquitto"])):
        print(f"tests.home_assistant: not installed: {missing}", file=sys.stderr)
        return 1
    start = time.monotonic()
    wanted = os.environ.get("SATELLITE") or "wyoming-satellite"
    try:
        core, satellite = environment.build(), environment.satellite(wanted)
        print(f"Home Assistant {core.version()}, {wanted}: ready after {time.monotonic() - start:.0f} s", flush=True)
    except ArmError as error:
        print(f"tests.home_assistant: {error}", file=sys.stderr)
        return 1
    folder = Path(tempfile.mkdtemp(prefix="auricle-home-"))
    print(f"logs: {folder}", flush=True)
    with contextlib.ExitStack() as ends:
        made = House(core, satellite, folder, ends)
        chosen = [one for one in CHECKS[1:] if not arguments or any(word in one.__name__ for word in arguments)]
        failed = sum(not passes(one, made) for one in (CHECKS[0], *chosen))
    print(f"{len(chosen) + 1 - failed} passed, {failed} failed")
    return 1 if failed else 0


def passes(one, made: House) -> bool:
    """Run a check, and print its line."""
    start, name = time.monotonic(), one.__name__.replace("_", " ")
    try:
        one(made)
    except Exception as error:  # whatever it is, the others are looked at
        if not isinstance(error, AssertionError):
            traceback.print_exc()
        print(f"FAILED {name}: {error!s:.600}", flush=True)
        return False
    print(f"ok     {name} ({time.monotonic() - start:.0f} s)", flush=True)
    return True


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(sys.argv[1:]))
