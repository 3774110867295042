"""``publish`` and ``publish-model``: send a public set or a shared model to a running server."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator_server.commands.remote import add_server, connect
from aggregator_server.errors import AggregatorError, ServerError
from fleet_protocol.ready_bundles import find_bundle

if TYPE_CHECKING:
    from aggregator_server.commands import Commands


def add(commands: Commands) -> None:
    """Add the commands."""
    publish = commands.add_parser("publish", help="send a public set to a running server")
    publish.add_argument("file", type=Path, help="the public set")
    publish.set_defaults(run=_publish)
    model = commands.add_parser("publish-model", help="send the fleet's shared model to a running server")
    model.add_argument("bundle", help="file of a bundle, or name of a ready one (`auricle-export list`)")
    model.set_defaults(run=_publish_model)
    for command in (publish, model):
        add_server(command)


def _publish(options: argparse.Namespace) -> int:
    return _send(options.file, "/v1/public-set", options)


def _publish_model(options: argparse.Namespace) -> int:
    return _send(find_bundle(options.bundle), "/v1/model", options)


def _send(file: Path, address: str, options: argparse.Namespace) -> int:
    client = connect(options)
    try:
        answer = client.put(address, file.read_bytes())
    except OSError as error:
        raise AggregatorError(f"{file} could not be read: {error}") from error
    except ServerError as error:
        raise AggregatorError(f"{file} could not be published: {error}") from error
    print(json.dumps(answer))
    return 0
