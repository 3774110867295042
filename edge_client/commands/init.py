"""``init``: a configuration file from three questions, or from options; ``devices``: lists the microphones."""

from __future__ import annotations

import argparse
import dataclasses
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge_client.commands import Commands, report, set_command
from fleet_protocol.bundle.ready_bundles import FIRST_CHOICE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edge_client.capture.arecord import CaptureDevice

_NO_MICROPHONE = "none"
# What somebody wants to be heard, and the bundle for it.
_HEARD = (("words", FIRST_CHOICE), ("everyday sounds", "sounds_2s"), ("both", "words_and_sounds"))
_KNOWING = [bundle for _, bundle in _HEARD]
_FLEET = "3. Paste the invitation of a fleet to learn with others, or press Enter to learn alone:"
_SHARING = "   May the fleet read your words for sounds, such as names of people? [y/N]"


def add(commands: Commands) -> None:
    """Add the commands."""
    init = commands.add_parser("init", help="write the configuration: it asks three questions, or takes these options")
    init.add_argument("--microphone", metavar="NAME", help=f'part of its name; "": the default; {_NO_MICROPHONE}: none')
    init.add_argument("--play", type=Path, metavar="PATH", help="recordings in its place: a file, or a folder of them")
    init.add_argument("--bundle", metavar="NAME|FILE", help=f"what recognises sounds ({FIRST_CHOICE})")
    knows = "what to listen for with nothing taught, e.g. computer,stop; `auricle-edge clips knows` lists them"
    init.add_argument("--knows", default="", metavar="NAME,..", help=knows)
    fleet = init.add_mutually_exclusive_group()
    fleet.add_argument("--link", help="join the fleet of this invitation")
    fleet.add_argument("--alone", action="store_true", help="take part in no fleet")
    init.add_argument("--share-names", action="store_true", help="let the fleet read your words for sounds")
    init.add_argument("--insecure-http", action="store_true", help="with --link: as for `auricle-edge join`")
    init.add_argument("--name", default=socket.gethostname()[:100] or "auricle", help="of the device (the host's)")
    init.add_argument(
        "--state", metavar="FOLDER", help="(state beside FILE; of /etc/auricle/edge.toml: /var/lib/auricle)"
    )
    init.add_argument("--force", action="store_true", help="replace a configuration")
    set_command(init, _init, search=False)
    set_command(commands.add_parser("devices", help="list the microphones"), _devices, config=False)


def _init(options: argparse.Namespace) -> int:
    from edge_client.config.location import SERVICE_CONFIG, config_option, new_config
    from edge_client.config.written import Answers, require_new, write_new

    options.config = new_config(options.config)
    require_new(options.config, replace=options.force)  # before anything is asked
    asking = sys.stdin.isatty() and not options.json
    _choose_microphone(options, asking=asking)
    wanted = "2. What shall it recognise, once you taught it?"
    bundle = options.bundle or (str(_choose(wanted, _HEARD)) if asking else FIRST_CHOICE)
    link = options.link or (_ask(_FLEET) if asking and not options.alone else "")
    share_names = options.share_names or bool(link and asking and _ask(_SHARING).lower() in ("y", "yes"))
    state = options.state or ("/var/lib/auricle" if options.config == SERVICE_CONFIG else "state")
    heard = None if options.microphone == _NO_MICROPHONE else options.microphone
    played = None if options.play is None else options.play.resolve()
    answers = Answers(options.name, state, bundle, heard, played, share_names=share_names)
    write_new(options.config, answers, replace=options.force)
    known = _know(options) if options.knows else []
    joined = _join(options, link) if link else None
    plays = None if played is None else str(played)
    found: dict[str, Any] = {"config": str(options.config), "bundle": bundle, "microphone": heard, "play": plays}
    found |= {"joined": joined, "knows": known}
    given = config_option(options.config)
    hint = ["`auricle-edge clips knows` lists what it knows with nothing taught"] if bundle in _KNOWING else []
    lines = (
        f"wrote {options.config}",
        *(() if joined is None else (f"joined the fleet of {joined}",)),
        *([f"it listens for {', '.join(known)}, with nothing taught"] if known else []),
        _described(bundle),
        *hint,
        f"next: auricle-edge doctor{given}, then auricle-edge run{given}",
    )
    return report(found, lines, json=options.json)


def _know(options: argparse.Namespace) -> list[str]:
    from edge_client.owner import Teaching
    from edge_client.owner_changes import know

    teaching = Teaching.open(options.config)
    return [know(teaching, sound) for part in options.knows.split(",") if (sound := part.strip())]


def _described(bundle: str) -> str:
    """Say what the device is to recognise, and how to have it recognise something else, before anything is taught."""
    chosen = next((f", for {what} that you teach it" for what, name in _HEARD if name == bundle), "")
    others = ", ".join(f"--bundle {name} for {what}" for what, name in _HEARD if name != bundle)
    return f"its bundle is {bundle}{chosen}; to choose another now, again with --force and {others}"


def _choose_microphone(options: argparse.Namespace, *, asking: bool) -> None:
    """Settle what the device listens with, where the options do not say it, and say when there is no microphone."""
    if options.play is not None:
        from edge_client.capture.file_player import playable

        playable(options.play)
        options.microphone = _NO_MICROPHONE
    if options.microphone == _NO_MICROPHONE:
        return
    found = _microphones(options.microphone)
    if options.microphone is None:
        options.microphone = ""
        if asking:
            default = "the system's default" if found else "one that will be plugged in later: the system's default"
            choices = [(default, "")]
            choices += [(f"{device.name} {device.description}".rstrip(), device.name) for device in found]
            choices.append(("none: this device does not listen", _NO_MICROPHONE))
            options.microphone = _choose("1. Which microphone shall it listen with?", choices)


def _microphones(wanted: str | None) -> list[CaptureDevice]:
    """Return the microphones that are there; where none is, or not the wanted one, say why, and what to do."""
    from edge_client.capture.arecord import arecord_devices, matching_device, presence
    from edge_client.errors import AudioError

    try:
        found = arecord_devices()
        if not found:
            raise AudioError(presence(found))
        if wanted:
            matching_device(wanted, found)
        return found
    except AudioError as error:
        print(f"auricle-edge: {error}", file=sys.stderr)
        return []


def _join(options: argparse.Namespace, given: str) -> str:
    from edge_client.fleet.joining import join
    from fleet_protocol.messages.invitation_link import InvitationLink

    link = InvitationLink.parse(given)
    join(options.config, link, insecure_http=options.insecure_http)
    return link.url


def _ask(question: str) -> str:
    print(question, end=" ", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:  # the terminal was closed
        raise KeyboardInterrupt
    return line.strip()


def _choose(question: str, choices: Sequence[tuple[str, Any]]) -> Any:  # noqa: ANN401  (whatever the choices stand for)
    """Have somebody choose by number; the first choice is that of an empty answer."""
    print(question, file=sys.stderr)
    for number, (text, _) in enumerate(choices, 1):
        print(f"  {number}  {text}", file=sys.stderr)
    while True:
        given = _ask(f"number [1 to {len(choices)}, Enter: 1]:") or "1"
        if given.isdecimal() and 1 <= int(given) <= len(choices):
            return choices[int(given) - 1][1]
        print(f"{given!r} is none of these numbers", file=sys.stderr)


def _devices(options: argparse.Namespace) -> int:
    from edge_client.capture.arecord import arecord_devices, presence

    found = arecord_devices()
    lines = (f"{device.name}  {device.description}".rstrip() for device in found)
    report([dataclasses.asdict(device) for device in found], lines, json=options.json)
    if not found:
        print(presence(found), file=sys.stderr)
    return 0 if found else 1
