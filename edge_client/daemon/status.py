"""What the daemon says of itself while it runs: a small file that `auricle-edge status` reads, and health for MQTT."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

from edge_client.config import FIRST_INPUT
from edge_client.errors import StateError
from edge_client.events import Health
from edge_client.pauses import Pauses
from edge_client.storage.device_state import DeviceState
from edge_client.storage.locks import in_memory, runtime_path
from edge_client.storage.saved_model import Progress
from fleet_protocol.ground.atomic_files import is_full, is_read_only, write_atomically
from fleet_protocol.numbers.tensors import digest

# A recorder that does not answer is killed within seconds; a board that is busy takes longer.
PATIENCE_S, _POLL_S = 60.0, 0.1
# Two pauses that began so near to each other are one, s.
_SAME_S = 5.0
_ZONES = Path("/sys/class/thermal")
# A microphone that gives nothing for so long, s, is opened anew; until then it counts as heard.
_SILENT_S = 15.0
# A daemon that has just started opens its microphone.
STARTING_S = 60.0
_NAME = "status.json"
# What the first release says of the model. Whatever came later may be missing in the file of a daemon that still runs.
_OF_MODEL = frozenset({"architecture", "labels", "provisional", "not_listened_for", "known", "round"})
# On a disk, which wears, a status without news is written so seldom, s. Older than this, the daemon stands still.
_WITHOUT_NEWS_S, STANDS_STILL_S = 12.0, 30.0
# What is news of a status, besides what its inputs and labels do.
_NEWS = ("paused", "model", "loops", "server", "training", "teaching", "home", "mqtt", "journal", "damage", "forgets")


def temperature_c() -> float | None:
    """Return the hottest thermal zone's temperature in degrees Celsius; None where there is none."""
    found = []
    for path in sorted(_ZONES.glob("thermal_zone*/temp")):
        try:
            found.append(int(path.read_text()) / 1000.0)
        except (OSError, ValueError):  # a zone that is switched off cannot be read
            continue
    return max(found, default=None)


def resident_mb() -> float | None:
    """Return the memory that this process holds, in MB; None where nothing tells."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024.0
    except OSError:
        return None
    return None


def health_of(status: dict[str, Any], now: float) -> Health:
    """Return how a device is."""
    inputs = {listening_name(name): counted or {} for name, counted in status["inputs"].items()}
    hearing = {name for name, one in inputs.items() if one and one["frames"] and one["last_frame_age_s"] < _SILENT_S}
    paused = bool(status.get("paused"))
    problems = list(_problems(status, set() if paused else inputs.keys() - hearing))
    began = max(status["started"], status.get("awake_since", 0.0))
    if not problems and not paused and now - began > STARTING_S:
        for name in (name for name, one in inputs.items() if name not in hearing and not one.get("lent")):
            what, trouble = f"the microphone {name.partition(' ')[2]}".strip(), inputs[name].get("trouble", "")
            problems.append(f"{what} gives no sound{trouble and ': '}{trouble}")
    errors = [f"{name}: {loop['error']}" for name, loop in status["loops"].items() if loop["error"]]
    errors += [part["error"] for name in ("training", "teaching", "server") if (part := status[name]) and part["error"]]
    return Health(
        listening=not paused and any(not inputs[name]["lent"] for name in hearing),
        problem=problems[0] if problems else "",
        error=errors[0] if errors else "",
        started=status["started"],
        versions=status["versions"],
    )


def why_forgetful(folder: Path) -> str:
    """Return why nothing can be kept in a state folder, and what to do, as its owner reads it; "" where it can be."""
    try:
        if not is_read_only(folder):
            return ""
    except OSError as error:
        return f"{folder} cannot be reached ({error.strerror}): look after its disk"
    return (
        f"the disk of {folder} is read-only. A memory card that is worn out becomes so: save what is on it "
        "(auricle-edge clips export FILE), and replace it"
    )


def listening_name(input_name: str) -> str:
    """Return the name of the loop that listens to an input; the first one's is ``listening``."""
    return "listening" if input_name in ("", FIRST_INPUT) else f"listening {input_name}"


def has_closed(state: DeviceState, pauses: Pauses) -> bool:
    """Wait until the daemon says that it closed all for the present pause; return whether it did in time.

    A pause that is over meanwhile, and a daemon that ended, are no more to be waited for. Raises StateError, OSError.
    """
    give_up = time.monotonic() + PATIENCE_S
    while (pause := pauses.current()) is not None and state.locked("daemon"):
        with contextlib.suppress(StateError):  # it is starting
            said = read_status(state).get("paused") or {"closed": False}
            if said["closed"] and said["by"] == pause.by and abs((said["since"] or 0) - (pause.since or 0)) < _SAME_S:
                return True
        if time.monotonic() > give_up:
            return False
        time.sleep(_POLL_S)
    return True


def _problems(status: dict[str, Any], silent: Set[str]) -> Iterator[str]:
    for name, loop in status["loops"].items():
        # A microphone that is tried again is still missing.
        if loop["state"] == "waiting" or (name in silent and loop["error"]):
            yield f"{name} failed: {loop['error']}"
        elif loop["stuck"]:
            yield f"{name} makes no progress"
    if status["forgets"]:
        yield f"it cannot remember anything: {status['forgets']}"
    if (journal := status["journal"]) and journal["trouble"]:
        yield f"the journal takes no events: {journal['trouble']}"
    if status["damage"]:
        yield f"damaged files were found: {status['damage'][-1]}"


def why_silent(status: dict[str, Any]) -> str:
    """Return why the first input gives no sound now, and what to do, as its owner reads it; "" where nobody knows.

    Raises nothing: ``status`` may be that of a daemon which is starting, or does not run.
    """
    if not status["running"]:
        return "the daemon does not run: auricle-edge run"
    if "time" not in status:
        return "the daemon is starting"
    if status["stands_still"]:
        return f"the daemon has said nothing for more than {STANDS_STILL_S:g} s: `auricle-edge doctor` says more"
    if paused := status.get("paused"):
        return f"the device is paused {paused['words']}: auricle-edge resume"
    counted = status["listening"] or {}
    if counted.get("lent"):
        return "somebody records with the microphone; the device listens again afterwards"
    if not status["inputs"]:
        return "it has no microphone: [microphone] in its configuration, or auricle-edge init"
    loop = status["loops"].get(listening_name(next(iter(status["inputs"]))), {})
    before = "" if counted.get("frames") else loop.get("error", "")  # one that gave sound since is no reason any more
    return str(counted.get("trouble") or before)


def _news(status: dict[str, Any]) -> str:
    """Return what of a status should be told at once, and not with the next ones."""
    inputs = {
        name: one and (one["trouble"], one["lent"], one["last_frame_age_s"] < _SILENT_S)
        for name, one in status.get("inputs", {}).items()
    }
    thresholds = {label: one["threshold"] for label, one in (status.get("sensitivity") or {}).items()}
    counts = (status.get("room") or {}).get("labels")
    return json.dumps([inputs, thresholds, counts, [status.get(name) for name in _NEWS]])


class StatusFile:
    """Written by the daemon, again and again; in memory, where systemd gives it a runtime folder."""

    def __init__(self, state: DeviceState) -> None:
        """Begin, and remove the status of a daemon before, which is over. Raises as ``runtime_path``."""
        self.in_memory = in_memory()
        self.path = runtime_path(state.folder, _NAME)
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
        self._told, self._due = "", 0.0

    def write(self, status: dict[str, Any], *, last: bool = False) -> None:
        """Replace the file: each time in memory, on a disk where there is news, or it grows old, or it is the last.

        It is not flushed to the disk: after a power cut nobody wants it. Where the disk has no room for both, the old
        one goes first: it would say what is over.
        """
        news, now = _news(status), time.monotonic()
        if not (last or self.in_memory) and news == self._told and now < self._due:
            return
        self._told, self._due = news, now + _WITHOUT_NEWS_S
        content = status | {"time": time.time()}
        data = json.dumps(content | {"sha256": digest(json.dumps(content).encode())}).encode() + b"\n"
        try:
            write_atomically(self.path, data)
        except OSError as error:
            if not is_full(error, self.path.parent):
                raise
            self.path.unlink(missing_ok=True)
            write_atomically(self.path, data)


def model_status(progress: Progress) -> dict[str, Any]:
    """Return what the status says of the model: labels, and what became of the last round's result.

    ``round`` has its number, whether the device kept its own model, and the metrics by which it decided; None before
    the first. ``not_listened_for`` are labels that the model that listens never learned,
    ``known`` by label the sounds known from the start that it is, as its owner chose or its takes sound.
    """
    names = progress.label_map.names
    judged = dict(progress.judged)
    kept_own = bool(judged.pop("kept_own", 0.0))
    return {
        "architecture": progress.architecture,
        "labels": progress.label_map.labels,
        "provisional": progress.provisional_labels,
        "not_listened_for": [names[slot] for slot in progress.silent],
        "known": dict(progress.for_listening.known),
        "round": {"round_id": progress.learned, "kept_own": kept_own, **judged} if progress.judged else None,
    }


def read_status(state: DeviceState) -> dict[str, Any]:
    """Return the last status, with ``running``, and ``stands_still``: it runs, and its status is older than it may be.

    ``forgets`` is of :func:`why_forgetful`. Raises StateError if no daemon ever ran here, or it is damaged.
    """
    running = state.locked("daemon")
    try:
        status = json.loads((state.folder / _NAME).read_bytes())
        if not isinstance(status, dict) or status.pop("sha256", None) != digest(json.dumps(status).encode()):
            raise ValueError("it does not match its digest")
    except FileNotFoundError:
        status = {}
    except (ValueError, RecursionError) as error:
        raise StateError(f"{state.folder / _NAME} is damaged ({error}); the daemon writes it anew") from error
    if not status and not running:
        raise StateError(f"no daemon has run with the state folder {state.folder}; start it with: auricle-edge run")
    if missing := _OF_MODEL - status.get("model", dict.fromkeys(_OF_MODEL)).keys():
        raise StateError(
            f"{state.folder / _NAME} is of another release of Auricle (it lacks {min(missing)}); start the daemon "
            "again, which writes it anew"
        )
    forgets = why_forgetful(state.folder)
    in_memory = (state.folder / _NAME).is_symlink()  # else the daemon cannot write it anew either
    old = time.time() - status.get("time", time.time()) > STANDS_STILL_S and (in_memory or not forgets)
    return status | {"running": running, "stands_still": running and old, "forgets": forgets}
