"""``wyoming``: a wake-word service for Home Assistant's voice."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from edge_client.commands import add_config

if TYPE_CHECKING:
    from edge_client.commands import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    wyoming = commands.add_parser("wyoming", help="offer taught words as wake words to Home Assistant's voice")
    wyoming.add_argument(
        "--uri", default="tcp://127.0.0.1:10400", metavar="URI", help="tcp://ADDRESS:PORT or unix://FILE (%(default)s)"
    )
    add_config(wyoming)
    wyoming.set_defaults(command=_wyoming)


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
