"""The app's programs in Home Assistant: options become a configuration; daemon, owner's page and wake words run on it.

They end together: with SIGTERM, or when one of them ends, so that Home Assistant starts all of them again. The
Supervisor says which broker there is, and is told of the wake words.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

from supervisor import Supervisor

from fleet_protocol.bundle.ready_bundles import FIRST_CHOICE
from fleet_protocol.ground.atomic_files import write_durably

_MQTT = ("host", "port", "username", "password")
_PASSWORD = "AURICLE_MQTT_PASSWORD"  # noqa: S105  (the variable's name)
_CONFIG = "edge.toml"
_DISCOVERY = "discovery"
# Less than config.yaml's timeout, after which the container is killed.
_PATIENCE_S = 20
_LISTENS_S, _STEP_S = 300.0, 0.5


def broker_of(options: dict[str, Any], supervisor: Supervisor) -> dict[str, Any]:
    """Return the options' broker, else Home Assistant's own, as keys of ``[mqtt]``; none where there is neither."""
    if options.get("mqtt_host"):
        return {key: options[f"mqtt_{key}"] for key in _MQTT if options.get(f"mqtt_{key}")}
    try:
        return supervisor.broker()
    except ValueError as error:
        print(
            f"auricle: nothing is published: Home Assistant names no MQTT broker ({error}). Install the app Mosquitto "
            "and restart this one, or name a broker in the options",
            flush=True,
        )
        return {}


def configuration(options: dict[str, Any], data: Path, proxy: str, port: int, broker: dict[str, Any]) -> str:
    """Return a device's configuration (TOML) of the app's options.

    Args:
        options: by the names of config.yaml.
        data: folder that Home Assistant keeps for the app.
        proxy: address that alone may open the owner's page.
        port: of the owner's page.
        broker: keys of ``[mqtt]``; its password is left out.
    """
    sections: dict[str, dict[str, Any]] = {
        "device": {"name": options["name"], "state": str(data / "state")},
        "model": {"bundle": options.get("bundle") or _bundle_of(data)},
        "microphone": {},
        "detector": {"false_accepts_per_hour": options["false_accepts_per_hour"]},
        "ui": {"host": "0.0.0.0", "port": port, "proxy": proxy},  # noqa: S104  (the proxy alone is answered)
    }
    if broker:
        sections["mqtt"] = {key: value for key, value in broker.items() if key != "password"}
    # JSON's strings and numbers are TOML's too, but for the character DEL.
    lines = [
        f"[{name}]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in section.items())
        for name, section in sections.items()
    ]
    return "\n".join(lines)


def _bundle_of(data: Path) -> str:
    """Return the bundle of what the device has learned, which another one would have it learn anew; else the first."""
    if not (data / "state" / "model.safetensors").exists():
        return FIRST_CHOICE
    try:
        return str(tomllib.loads((data / _CONFIG).read_text())["model"]["bundle"])
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"{data / _CONFIG} does not say with which bundle the device has learned ({error}); "
            "choose the bundle in the options"
        ) from error


def _toml(value: str | float) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def main() -> int:
    """Run the programs; return the exit status: 0 after SIGTERM, 1 where one of them ended by itself."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=Path("/data"), help="folder with options.json (%(default)s)")
    parser.add_argument("--proxy", default="172.30.32.2", help="Home Assistant's address (%(default)s)")
    parser.add_argument("--port", type=int, default=8099, help="of the owner's page (%(default)s)")
    parser.add_argument("--wyoming", default="tcp://0.0.0.0:10400", help="address of the wake words (%(default)s)")
    parser.add_argument("--supervisor", default="http://supervisor", help="Home Assistant's Supervisor (%(default)s)")
    chosen = parser.parse_args()
    supervisor = Supervisor(chosen.supervisor, os.environ.pop("SUPERVISOR_TOKEN", ""))
    try:
        options = dict(json.loads((chosen.data / "options.json").read_bytes()))
        broker = broker_of(options, supervisor)
        text = configuration(options, chosen.data, chosen.proxy, chosen.port, broker)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"auricle: {chosen.data / 'options.json'} cannot be used ({error!r}); save the options anew", flush=True)
        return 1
    config = chosen.data / _CONFIG
    write_durably(config, text.encode())
    programs = [["run"], ["ui"]]
    offered = chosen.data / _DISCOVERY
    if options.get("wake_words"):
        programs.append(["wyoming", "--uri", chosen.wyoming])
        threading.Thread(target=_offer, args=[supervisor, chosen.wyoming, offered], daemon=True).start()
    elif offered.exists():
        _take_back(supervisor, offered)
    environment = dict(os.environ)
    if broker.get("password"):
        environment[_PASSWORD] = str(broker["password"])
    return _run(programs, config, environment)


def _offer(supervisor: Supervisor, uri: str, offered: Path) -> None:
    """Tell Home Assistant of the wake words, once they answer: it tries them at once."""
    port = urlsplit(uri).port
    if port is None:  # a socket that Home Assistant cannot reach
        return
    deadline = time.monotonic() + _LISTENS_S
    while not _listens(port) and time.monotonic() < deadline:
        time.sleep(_STEP_S)
    try:
        number = supervisor.offer(f"tcp://{socket.gethostname()}:{port}")
        write_durably(offered, number.encode())
    except (OSError, ValueError) as error:
        print(f"auricle: Home Assistant was not told of the wake words ({error}); add them by hand", flush=True)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        return False
    return True


def _take_back(supervisor: Supervisor, offered: Path) -> None:
    """Have Home Assistant forget wake words that are not offered any more."""
    try:
        supervisor.take_back(offered.read_text())
    except (OSError, ValueError) as error:
        print(f"auricle: Home Assistant may still show the wake words ({error})", flush=True)
    offered.unlink(missing_ok=True)


def _run(programs: list[list[str]], config: Path, environment: dict[str, str]) -> int:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    started: list[subprocess.Popen[bytes]] = []
    try:
        for words in programs:
            command = [sys.executable, "-m", "edge_client.cli", *words, "--config", str(config)]
            started.append(subprocess.Popen(command, env=environment))
        ended, _ = os.wait()
        words = next(words for words, program in zip(programs, started, strict=True) if program.pid == ended)
        print(f"auricle: `auricle-edge {words[0]}` ended", flush=True)
        status = 1
    except _StoppedError:
        status = 0
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    for program in started:
        program.terminate()
    for program in started:
        try:
            program.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            program.kill()
    return status


class _StoppedError(Exception):
    """Home Assistant stops the app."""


def _stop(_: int, __: FrameType | None) -> None:
    raise _StoppedError


if __name__ == "__main__":
    sys.exit(main())
