"""``questions``: the sounds about which the device is in doubt, and what their owner says."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import TYPE_CHECKING, Any

from edge_client.commands import Command, Commands, report, set_command

if TYPE_CHECKING:
    from edge_client.questions.store import Question


def add(commands: Commands) -> None:
    """Add the command and those below it."""
    questions = commands.add_parser("questions", help="list the device's questions; play, answer or forget one")
    set_command(questions, _list)
    actions = questions.add_subparsers(metavar="ACTION")

    def action(name: str, help_: str, command: Command, *, json: bool = True) -> argparse.ArgumentParser:
        parser = actions.add_parser(name, help=help_)
        parser.add_argument("question", metavar="ID")
        set_command(parser, command, json=json, below=True)
        return parser

    action("play", "play the sound of a question", _play, json=False)
    answered = action("answer", "say whether it was that sound; the device learns it at once", _answer)
    said = answered.add_mutually_exclusive_group(required=True)
    said.add_argument("said", nargs="?", choices=("yes", "no"), help="it was, or it was not")
    said.add_argument("--was", metavar="LABEL", help="what it was instead")
    action("forget", "delete its sound, and never ask about such a sound again", _forget)


def _list(options: argparse.Namespace) -> int:
    from edge_client.owner import Teaching
    from edge_client.questions.answers import open_questions

    found = [_described(one) for one in open_questions(Teaching.open(options.config))]
    lines = [
        f"{one['id']}  {one['heard'].replace('T', ' ')}  "
        f"was that {one['label']}? {one['what']}, score {one['score']:.2f}"
        for one in found
    ]
    return report(found, lines or ["the device asks nothing now"], json=options.json)


def _described(one: Question) -> dict[str, Any]:
    heard = datetime.fromtimestamp(one.at).isoformat(timespec="seconds")
    what = "detected" if one.detected else "nearly detected"
    return {"id": one.question_id, "heard": heard, "label": one.label, "what": what, "score": round(one.score, 4)}


def _play(options: argparse.Namespace) -> int:
    from edge_client.capture.playback import play
    from edge_client.owner import Teaching
    from edge_client.questions.answers import store_of

    teaching = Teaching.open(options.config)
    store = store_of(teaching)
    play(store.sound(store.find(options.question)), teaching.settings.sample_rate_hz)
    return 0


def _answer(options: argparse.Namespace) -> int:
    says = "was" if options.was is not None else options.said
    return _answered(options, says, options.was or "")


def _forget(options: argparse.Namespace) -> int:
    return _answered(options, "never")


def _answered(options: argparse.Namespace, says: str, label: str = "") -> int:
    from edge_client.owner import Teaching
    from edge_client.questions.answers import answer

    told = answer(Teaching.open(options.config), options.question, says, label)
    line = f"{told} `auricle-edge clips undo` takes it back"
    return report({"id": options.question, "said": says, "label": label}, [line], json=options.json)
