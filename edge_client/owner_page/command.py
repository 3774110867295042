"""``ui``: the owner's page."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING

from edge_client.commands import add_config

if TYPE_CHECKING:
    from edge_client.commands import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    page = commands.add_parser("ui", help="the owner's page: see what it hears, confirm, correct and teach")
    add_config(page)
    page.add_argument("--host", help="address on which it listens ([ui] host; this machine alone)")
    page.add_argument("--port", type=int, help="its port; 0: any that is free ([ui] port; 8471)")
    page.add_argument(
        "--insecure-http", action="store_true", help="let it listen beyond this machine, where others can read along"
    )
    page.add_argument("--new-token", action="store_true", help="draw another token; who signed in must do so again")
    page.set_defaults(command=_ui)


def _ui(options: argparse.Namespace) -> int:
    from edge_client.config import load_config
    from edge_client.owner_page.server import serve

    config = load_config(options.config)
    given = {key: value for key in ("host", "port") if (value := getattr(options, key)) is not None}
    ui = dataclasses.replace(config.ui, **given, insecure_http=config.ui.insecure_http or options.insecure_http)
    return serve(options.config, dataclasses.replace(config, ui=ui), new_token=options.new_token)
