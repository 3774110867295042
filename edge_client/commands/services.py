"""``ui`` and ``wyoming``: the owner's page, and a wake-word service for Home Assistant's voice."""

from __future__ import annotations

import argparse
import dataclasses

from edge_client.commands import Commands, set_command


def add(commands: Commands) -> None:
    """Add the commands."""
    page = commands.add_parser("ui", help="serve the owner's page: see what it hears, confirm, correct and teach")
    page.add_argument("--host", help="address on which it listens ([ui] host; this machine alone)")
    page.add_argument("--port", type=int, help="its port; 0: any that is free ([ui] port; 8471)")
    page.add_argument(
        "--insecure-http", action="store_true", help="let it listen beyond this machine, where others can read along"
    )
    page.add_argument("--new-token", action="store_true", help="draw another token; who signed in must do so again")
    set_command(page, _ui, json=False)
    wyoming = commands.add_parser("wyoming", help="offer taught words as wake words to Home Assistant's voice")
    wyoming.add_argument(
        "--uri", default="tcp://127.0.0.1:10400", metavar="URI", help="tcp://ADDRESS:PORT or unix://FILE (%(default)s)"
    )
    set_command(wyoming, _wyoming, json=False)


def _ui(options: argparse.Namespace) -> int:
    from edge_client.config import load_config
    from edge_client.owner_page.server import serve

    config = load_config(options.config)
    given = {key: value for key in ("host", "port") if (value := getattr(options, key)) is not None}
    ui = dataclasses.replace(config.ui, **given, insecure_http=config.ui.insecure_http or options.insecure_http)
    return serve(options.config, dataclasses.replace(config, ui=ui), new_token=options.new_token)


def _wyoming(options: argparse.Namespace) -> int:
    import asyncio
    import contextlib
    import functools

    from wyoming.server import AsyncServer

    from edge_client.config import load_config
    from edge_client.daemon.listening_loop import load_listening
    from edge_client.errors import ConfigError
    from edge_client.logs import set_up_log
    from edge_client.voice.wake_words import WakeWords

    set_up_log()
    config = load_config(options.config)
    load = functools.partial(load_listening, config)
    labels = load().label_map.labels
    try:
        server = AsyncServer.from_uri(options.uri)
    except ValueError as error:
        raise ConfigError(f"--uri {options.uri}: {error}; write it like tcp://127.0.0.1:10400") from error
    print(f"wake words at {options.uri}: {', '.join(labels) or 'none yet, teach one'}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(server.run(functools.partial(WakeWords, load, config.detector)))
    return 0
