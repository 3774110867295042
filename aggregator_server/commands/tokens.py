"""``tokens``: the tokens of people, and the two that the server drew at its first start."""

import argparse
import dataclasses
import json
import os
import sys
import time
from pathlib import Path

from aggregator_server.commands import Commands, add_data, add_json, add_state, duration, location_of, show, tables_of
from aggregator_server.commands.targets import Named, resolve
from aggregator_server.errors import StartError
from aggregator_server.schemas import TokenRequest
from aggregator_server.security import ADMIN_VARIABLE, ENROL_VARIABLE, load_tokens
from aggregator_server.server_address import noted_address, require_address, sign_in_link

_OPENS = {
    "viewer": "everything to look at, but tokens and invitations",
    "operator": "that, and rounds, classes and devices to act on",
    "admin": "everything",
}


def add(commands: Commands) -> None:
    """Add the command."""
    tokens = commands.add_parser("tokens", help="make, list, revoke people's tokens; alone: print the server's own")
    tokens.add_argument("--data", type=Path, help="the server's data folder")
    add_state(tokens)
    add_json(tokens)
    tokens.set_defaults(run=_print)
    actions = tokens.add_subparsers(metavar="ACTION")
    link = actions.add_parser("link", help="print a link that signs an administrator in, once, within a minute")
    link.add_argument("--url", help="the server (where it listened last)")
    add_json(link, below=True)
    link.set_defaults(run=_link)
    new = actions.add_parser("add", help="make a token and print it, this once")
    new.add_argument("name", help="whose it is")
    new.add_argument("--role", choices=tuple(_OPENS), required=True, help="each may do what those before it may")
    new.add_argument("--expires", type=duration, default="365d", metavar="TIME", help="like 12h, 30d, never (365d)")
    add_json(new, below=True)
    new.set_defaults(run=_add)
    listing = actions.add_parser("list", help="list the tokens")
    add_json(listing, below=True)
    listing.set_defaults(run=_list)
    revoke = actions.add_parser("revoke", help="refuse a token from now on")
    revoke.add_argument("token", metavar="NUMBER|NAME", help="as `tokens list` shows it")
    revoke.set_defaults(run=_revoke)
    for action in (link, new, listing, revoke):
        add_data(action, required=False)


def _print(options: argparse.Namespace) -> int:
    from aggregator_server.store.data_folder import is_data_folder

    place = location_of(options)
    folder = place.data
    if not is_data_folder(place) and not (folder / "tokens.json").is_file():
        raise StartError(
            f"{folder} is no data folder; name the one that the server runs with (`auricle-aggregator run --data "
            "FOLDER` makes one)"
        )
    tokens = load_tokens(folder, os.environ)
    if options.json:
        print(json.dumps({"admin": tokens.admin, "enrol": tokens.enrol}))
    else:
        print(f"{tokens.admin}  signs an administrator in to the dashboard, and opens everything")
        print(f"{tokens.enrol}  lets any number of devices in; for one, `auricle-aggregator invite` is safer")
    _say_of_environment()
    return 0


def _say_of_environment() -> None:
    if any(name in os.environ for name in (ADMIN_VARIABLE, ENROL_VARIABLE)):
        print("(from the environment; the server must run with the same)", file=sys.stderr)


def _link(options: argparse.Namespace) -> int:
    from aggregator_server.fleet.audit import COMMAND_LINE
    from aggregator_server.fleet.sessions import make_once

    data = location_of(options).data
    url = options.url or noted_address(data)
    require_address(url)
    first = load_tokens(data, os.environ).admin
    link = sign_in_link(url.rstrip("/"), make_once(tables_of(options), first, COMMAND_LINE, time.time()))
    print(json.dumps({"link": link}) if options.json else link)
    _say_of_environment()
    return 0


def _add(options: argparse.Namespace) -> int:
    from aggregator_server.fleet.audit import COMMAND_LINE
    from aggregator_server.fleet.tokens import add_token

    wanted = TokenRequest(name=options.name, role=options.role, expires_s=options.expires)
    made = add_token(tables_of(options), wanted, COMMAND_LINE, time.time())
    if options.json:
        print(json.dumps({"token_id": made.info.token_id, "token": made.token}))
        return 0
    print(made.token)
    until = made.info.expires_at.date() if made.info.expires_at else "never"
    print(f"(token {made.info.token_id}; expires: {until}. It is not shown again)", file=sys.stderr)
    return 0


def _list(options: argparse.Namespace) -> int:
    from aggregator_server.fleet.tokens import list_tokens

    columns = ("token_id", "name", "role", "opens", "made_at", "expires_at", "revoked_at")
    listed = list_tokens(tables_of(options))
    show([dataclasses.asdict(info) | {"opens": _OPENS[info.role]} for info in listed], columns, as_json=options.json)
    return 0


def _revoke(options: argparse.Namespace) -> int:
    from aggregator_server.fleet.audit import COMMAND_LINE
    from aggregator_server.fleet.tokens import list_tokens, revoke_token

    tables = tables_of(options)
    known = (Named(str(info.token_id), info.name, info.revoked_at is None) for info in list_tokens(tables))
    token = resolve(options.token, known, "token", "auricle-aggregator tokens list", prefixes=False)
    revoke_token(tables, int(token), COMMAND_LINE, time.time())
    return 0
