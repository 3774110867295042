"""``try``: a fleet at work on this machine, on synthesised sounds: ``new``, ``run``, ``auricle-edge join`` at once."""

import argparse
import json
import queue
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from aggregator_server.client import Client
from aggregator_server.commands import Commands
from aggregator_server.commands.new import EDGE, require_edge
from aggregator_server.commands.targets import connect
from aggregator_server.errors import AggregatorError, StartError
from aggregator_server.server_address import said_of_link
from fleet_protocol.ground.child_programs import open_in_browser, trial
from fleet_protocol.ground.own_python import python

_PROGRAM, _BUNDLE = "aggregator_server.cli", "sounds_2s"
_LABELS, _NEW = ("doorbell", "knock", "bark", "telephone"), "kettle"
_NAMES = ("kitchen", "hall", "study", "bedroom", "nursery", "workshop", "attic", "garage", "cellar", "porch")
_KNOWING, _PLAYED = 2, "heard"  # how many devices know the new sound; the folder of what another one hears
_TAKES, _TAKE_S = 8, 2
_INTERVAL_S, _READY_S, _LOOK_S = 60, 300.0, 2.0


def add(commands: Commands) -> None:
    """Add the command."""
    trial = commands.add_parser(
        "try", help="see a fleet at work at once: a server and devices here, with sample sounds"
    )
    trial.add_argument("--devices", type=_number, default=3, metavar="N", help=f"how many, 2 to {len(_NAMES)} (3)")
    trial.add_argument("--folder", type=Path, help="an empty folder, to keep everything there (a temporary one)")
    trial.add_argument("--port", type=int, default=0, help="of the server (any that is free)")
    trial.add_argument("--no-browser", action="store_true", help="only print the dashboard's address")
    trial.set_defaults(run=_try)


def _number(text: str) -> int:
    if not text.isdecimal() or not 2 <= int(text) <= len(_NAMES):
        raise argparse.ArgumentTypeError(f"must be from 2 to {len(_NAMES)}, not {text}")
    return int(text)


def _try(options: argparse.Namespace) -> int:
    require_edge()
    if options.folder is not None and options.folder.exists() and any(options.folder.iterdir()):
        raise StartError(f"--folder {options.folder} is not empty; a fleet to try needs a folder of its own")
    with trial(options.folder) as (folder, programs):
        names, data = _NAMES[: options.devices], folder / "fleet"
        _save_sounds(folder, names)
        port = options.port or _free_port()
        given = ("--from", folder / "recordings", "--data", data, "--bundle", _BUNDLE, "--port", port)
        link = _answer("new", *given, "--devices", len(names), "--json")["link"]
        said: queue.SimpleQueue[str] = queue.SimpleQueue()
        programs.start("server", _PROGRAM, "run", "--data", data, "--port", port, "--devices-needed", 1, tell=said.put)
        programs.wait(lambda: not said.empty(), _READY_S)
        heard: queue.SimpleQueue[str] = queue.SimpleQueue()
        listener = "" if len(names) == _KNOWING else names[_KNOWING]
        for name in names:
            plays = ("--play", folder / _PLAYED) if name == listener else ()
            join = ("join", "-", "--recordings", folder / name, *plays, "--run")
            programs.start(name, EDGE, *join, tell=heard.put if plays else _ignore, given=link)
        client = connect(argparse.Namespace(data=data, url=None, authority=None, token=None))
        programs.wait(lambda: len(client.get("/v1/devices")) == len(names), _READY_S)
        url = _answer("tokens", "link", "--data", data, "--json")["link"]
        knowing = " and ".join(names[:_KNOWING])
        print(f"A fleet of {', '.join(names)} learns sample sounds; {knowing} know one more, a {_NEW}.")
        if listener:
            print(f"{listener} has a {_NEW} beside it, and nobody teaches it that.")
        print(f"Its dashboard: {url} (Ctrl-C here ends it all)")
        print(said_of_link(data))
        print("With your own recordings: auricle-aggregator new --from FOLDER\n", flush=True)
        if not options.no_browser:
            open_in_browser(url)
        shown: dict[int, str] = {}
        told: set[str] = set()
        next_at = 0.0
        while True:
            if time.monotonic() >= next_at and all(one["state"] != "open" for one in client.get("/v1/rounds", limit=1)):
                next_at = time.monotonic() + _INTERVAL_S
                client.send("POST", "/v1/rounds", {})
            if _show_news(client, shown):
                next_at = 0.0  # who looks on need not wait for the name
            _show_heard(listener, heard, told)
            programs.watch(_LOOK_S)
    return 0


def _ignore(_line: str) -> None:
    """Take a line of a device that nobody reads."""


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _save_sounds(folder: Path, names: tuple[str, ...]) -> None:
    """Synthesise what everybody may have, and other sources of it for each device; the first two know a new sound."""
    import numpy as np

    from fleet_protocol.ground.sample_sounds import RATE_HZ, save, takes

    rng = np.random.default_rng(1)
    for number, owner in enumerate(("recordings", "recordings", *names)):
        for label in _LABELS if owner not in names[:_KNOWING] else (*_LABELS, _NEW):
            for take, samples in enumerate(takes(label, _TAKES, _TAKE_S * RATE_HZ, rng)):
                save(folder / owner / label / f"{number}-{take}.wav", samples)
    for take, samples in enumerate(takes(_NEW, _TAKES, _TAKE_S * RATE_HZ, rng)):
        save(folder / _PLAYED / f"{take}.wav", samples)


def _answer(*arguments: object) -> Any:  # noqa: ANN401  (whatever JSON says)
    done = subprocess.run(python(_PROGRAM, *arguments), capture_output=True, text=True, check=False)
    if done.returncode:
        raise AggregatorError(done.stderr.strip().removeprefix("auricle-aggregator: "))
    return json.loads(done.stdout)


def _show_news(client: Client, shown: dict[int, str]) -> bool:
    """Print how the newest rounds stand, and what the fleet knows, where that is news.

    Name a sound that the fleet found, and return whether there was one.
    """
    known = client.get("/v1/classes")
    classes = ", ".join(found["name"] for found in known)
    for found in reversed(client.get("/v1/rounds", limit=2)):
        number, state = found["round_id"], found["state"]
        if state == "done" and found["learned"] == found["selected"]:
            state = "its result reached every device"
        if shown.get(number) != state:
            shown[number] = state
            knows = f"; the fleet knows {classes}" if state.startswith("its result") else ""
            print(f"{time.strftime('%H:%M:%S')}  round {number}, {found['strategy']}: {state}{knows}", flush=True)
    unnamed = next((info for info in known if info["name"] == f"sound-{info['class_id'].removeprefix('c')}"), None)
    everywhere = any(state.startswith("its result") for state in shown.values())
    if not everywhere or unnamed is None:  # never what somebody named on the dashboard
        return False
    client.send("PATCH", f"/v1/classes/{unnamed['class_id']}", {"name": _NEW})
    said = f"{unnamed['name']}, which nobody had named, is the {_NEW} from now on, everywhere with the next round"
    print(f"{time.strftime('%H:%M:%S')}  {said}", flush=True)
    return True


def _show_heard(listener: str, heard: queue.SimpleQueue[str], told: set[str]) -> None:
    """Print by which names the device that listens hears the new sound, each once."""
    while not heard.empty():
        try:
            event = json.loads(heard.get())
        except ValueError:
            continue  # said at the start
        label = str(event.get("label"))
        if event.get("kind") == "detected" and label not in (*_LABELS, *told):
            told.add(label)
            print(f"{time.strftime('%H:%M:%S')}  {listener} heard {label}, which others taught", flush=True)
