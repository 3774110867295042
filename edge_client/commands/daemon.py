"""``doctor``, ``run``, ``status``: the daemon and how it is; ``ui``, ``wyoming``: what serves beside it."""

import argparse
import dataclasses
import shlex
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from edge_client.commands import Commands, open_device, report, set_command
from fleet_protocol.errors import printable
from fleet_protocol.ground.command_line import ILL, NOT_RUNNING, print_json

# Seconds without sound after which a microphone in trouble is no short interruption.
_DEAF_S = 60.0
_SIGNS = {"ok": "ok  ", "warning": "WARN", "problem": "FAIL"}


def add(commands: Commands) -> None:
    """Add the commands."""
    doctor = commands.add_parser("doctor", help="check microphone, disk, clock, model, aggregator; say what to do")
    set_command(doctor, _doctor, search=False)  # that there is none is a finding
    run = commands.add_parser("run", help="listen, learn from the owner and from the fleet: the daemon")
    set_command(run, _run, json=False)
    status = commands.add_parser("status", help="say how the daemon is; exit status 3: it does not run, 4: it is ill")
    set_command(status, _status)
    page = commands.add_parser("ui", help="serve the owner's page: see what it hears, confirm, correct and teach")
    page.add_argument("--host", help="address on which it listens ([ui] host; this machine alone)")
    page.add_argument("--port", type=int, help="its port; 0: any that is free ([ui] port; 8471)")
    beyond = "speak plain HTTP also beyond this machine, where others can read along"
    page.add_argument("--insecure-http", action="store_true", help=beyond)
    page.add_argument("--new-token", action="store_true", help="draw another token; who signed in must do so again")
    page.add_argument("--phone", action="store_true", help="show a QR code that signs a phone in")
    offered = "where the device plays recordings: Teach offers LABEL/*.wav, and it then plays LABEL/played/*.wav too"
    page.add_argument("--offers", type=Path, metavar="FOLDER", help=offered)
    set_command(page, _ui, json=False)
    wyoming = commands.add_parser("wyoming", help="offer taught words as wake words to Home Assistant's voice")
    where = "tcp://ADDRESS:PORT or unix://FILE (%(default)s)"
    wyoming.add_argument("--uri", default="tcp://127.0.0.1:10400", metavar="URI", help=where)
    set_command(wyoming, _wyoming, json=False)


def _doctor(options: argparse.Namespace) -> int:
    from edge_client.daemon.doctor import examine

    findings = []
    for finding in examine(options.config):
        findings.append(finding)
        if not options.json:
            print(printable(f"{_SIGNS[finding.verdict]}  {finding.check:<14} {finding.found}"), flush=True)
            if finding.way_out:
                print(printable(f"{'':22}-> {finding.way_out}"), flush=True)
    if options.json:
        print_json([dataclasses.asdict(finding) for finding in findings])
    return int(any(finding.verdict == "problem" for finding in findings))


def _run(options: argparse.Namespace) -> int:
    from edge_client.daemon.daemon import run

    return run(options.config)


def _ui(options: argparse.Namespace) -> int:
    from edge_client.config import load_config
    from edge_client.owner_page.server import serve

    config = load_config(options.config)
    given = {key: value for key in ("host", "port") if (value := getattr(options, key)) is not None}
    ui = dataclasses.replace(config.ui, **given, insecure_http=config.ui.insecure_http or options.insecure_http)
    config = dataclasses.replace(config, ui=ui)
    return serve(options.config, config, new_token=options.new_token, phone=options.phone, offers=options.offers)


def _wyoming(options: argparse.Namespace) -> int:
    import asyncio
    import contextlib
    import functools

    from wyoming.server import AsyncServer

    from edge_client.config import load_config
    from edge_client.errors import ConfigError
    from edge_client.logs import set_up_log
    from edge_client.voice.streams import Listening
    from edge_client.voice.wake_words import Connections, WakeWords

    set_up_log()
    listening = Listening(load_config(options.config))
    listening.load()  # what cannot be loaded is said now
    try:
        server = AsyncServer.from_uri(options.uri)
    except ValueError as error:
        raise ConfigError(f"--uri {options.uri}: {error}; write it like tcp://127.0.0.1:10400") from error
    print(f"wake words at {options.uri}: {', '.join(listening.labels()) or 'none yet, teach one'}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(server.run(functools.partial(WakeWords, Connections(listening))))
    return 0


def _status(options: argparse.Namespace) -> int:
    from edge_client.daemon.status import read_status

    _, state = open_device(options)
    state.require_own_release()
    status = read_status(state) | {"advice": state.advice()}
    report(status, _lines(status), json=options.json)
    if not status["running"]:
        return NOT_RUNNING
    failing = (
        status["stands_still"]
        or status["forgets"]
        or any(loop["stuck"] or loop["state"] == "waiting" for loop in status.get("loops", {}).values())
    )
    failing = failing or any(_is_deaf(one) for one in status.get("inputs", {}).values())
    return ILL if failing or (status.get("journal") or {}).get("trouble") or _is_shut_out(status) else 0


def _is_deaf(counters: dict[str, Any] | None) -> bool:
    """Return whether an input gives no sound any more, and says why."""
    return bool(counters and counters["trouble"] and counters["last_frame_age_s"] > _DEAF_S)


def _is_shut_out(status: dict[str, Any]) -> bool:
    """Return whether the aggregator answers and refuses this device; one that waits for an operator is not ill."""
    server = status.get("server")
    return bool(server and server["reachable"] and not server["enrolled"] and not server["waiting"])


def _lines(status: dict[str, Any]) -> list[str]:
    if "time" not in status:
        return ["starting, or without space on the disk for its status (auricle-edge doctor)"]
    age = time.time() - status["time"]
    head = f"running for {_span(time.time() - status['started'])}" if status["running"] else "NOT running"
    if status["stands_still"]:
        head = "runs, but STANDS STILL, or cannot write its status (is the disk read-only?): auricle-edge doctor"
    model, paused = status["model"], status.get("paused")
    lines = [
        f"{status['name']}: {head} (process {status['pid']}, seen {_span(age)} ago)",
        *([f"PAUSED    {paused['words']}{'' if paused['closed'] else ': it is being closed'}"] if paused else []),
        *([f"memory    CANNOT REMEMBER anything: {status['forgets']}"] if status["forgets"] else []),
        f"model     {model['architecture']}: {', '.join(model['labels']) or 'no labels yet'}",
        *_round_lines(model),
    ]
    for name, loop in status["loops"].items():
        trouble = f", {loop['restarts']} restarts, last error: {loop['error']}" if loop["error"] else ""
        lines.append(f"{name:9s} {'STUCK' if loop['stuck'] else loop['state']}{trouble}")
    if _is_shut_out(status):
        lines.append(
            f"fleet     NOT ENROLLED at {status['server']['server']}; ask for an invitation (`auricle-aggregator "
            "invite`) and run `auricle-edge join LINK`, or correct enrol_token (`auricle-aggregator tokens`)"
        )
    lines += [
        f"          {one['name']!r} of the fleet is not listened for: {one['why_silent']}"
        for one in model.get("offers", ())
        if one["why_silent"]
    ]
    lines += [f"          {label!r} is not listened for: {why}" for label, why in status.get("off", {}).items()]
    subjects = {name: status.get(name) for name in ("listening", "server", "training", "teaching", "board")}
    lines += [
        f"{name:9s} " + ", ".join(f"{key} {_value(value)}" for key, value in found.items())
        for name, found in subjects.items()
        if found
    ]
    for name, found in list(status.get("inputs", {}).items())[1:]:
        figures = ", ".join(f"{key} {_value(value)}" for key, value in (found or {}).items())
        lines.append(f"{name:9s} {figures or 'gives no sound yet'}")
    if (told := status.get("privacy")) is not None:
        lines.append(f"privacy   {told['words']}")
    if (room := status.get("room")) is not None:
        from edge_client.detection.observed_rates import rate_lines

        lines += rate_lines(room)
    if (home := status.get("home")) is not None:
        lines.append(f"home      {', '.join(home['devices']) or 'no device of it is connected'}")
    if (mqtt := status.get("mqtt")) is not None:
        lines.append(f"mqtt      {mqtt['trouble'] or 'connected'}")
    if (journal := status.get("journal")) and (journal["trouble"] or journal["lost"]):
        lines.append(f"journal   {journal['trouble'] or 'takes events again'}; {journal['lost']} events are lost")
    lines += [f"damage    {sentence}" for sentence in status["damage"]]
    return lines + advice_lines(status["advice"]) + provisional_lines(model["provisional"])


def _round_lines(model: dict[str, Any]) -> list[str]:
    lines = []
    if (judged := model["round"]) is not None:
        what = "was worse here: the device keeps a model of its own" if judged["kept_own"] else "was taken"
        found = (f"{key} {value:.1f} %" for key, value in judged.items() if key not in ("round_id", "kept_own"))
        figures = ", ".join(found) or "nothing to judge by"
        lines.append(f"round     the result of round {judged['round_id']} {what} ({figures})")
    if model["known"]:
        known = (label if label == sound else f"{label} ({sound})" for label, sound in model["known"].items())
        lines.append(f"          built-in: {', '.join(known)}")
    if model["not_listened_for"]:
        names = ", ".join(model["not_listened_for"])
        lines.append(f"          not listened for until a round is taken or you teach it: {names}")
    return lines


_KINDS = {"word": ", a word", "sound": ", an everyday sound"}


def advice_lines(advice: list[dict[str, Any]]) -> list[str]:
    """Return of the labels that were taught, for people, of how many takes, and what would help."""
    lines = []
    for found in advice:
        lines.append(f"{found['label']!r}{_KINDS.get(found.get('kind', ''), '')}, {found['takes']} takes")
        lines += [f"  {line}" for line in found["lines"]]
        if any(f"not {found['label']!r}" in line for line in found["lines"]):
            say = f"auricle-edge label ID --not {shlex.quote(found['label'])}"
            lines.append(f"  to tell it: {say} (`auricle-edge label` lists what was heard, each with its ID)")
    return lines


def known_lines(known: Mapping[str, str], takes: Mapping[str, int]) -> list[str]:
    """Return which labels are built-in sounds, for people."""
    return [
        f"{label!r}{'' if label == sound else f' ({sound})'}: built-in, {takes.get(label, 0)} takes"
        for label, sound in known.items()
    ]


def provisional_lines(labels: Iterable[str]) -> list[str]:
    """Return, for people, which of the fleet's sounds are still to be confirmed by more devices."""
    return [f"{label!r} is provisional: few devices of the fleet were taught it so far" for label in labels]


def _value(value: Any) -> str:  # noqa: ANN401  (whatever JSON holds)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return "(" + ", ".join(f"{key} {_value(item)}" for key, item in value.items()) + ")"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value in (None, "") else str(value)


def _span(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
