"""``publish`` and ``publish-model``: send a public set or a shared model to a running server."""

from __future__ import annotations

import argparse
import http.client
import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from aggregator_server.errors import AggregatorError
from aggregator_server.security import ADMIN_VARIABLE
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
        command.add_argument("--url", required=True, help="the server, e.g. http://127.0.0.1:8470")
        command.add_argument(
            "--authority", type=Path, metavar="FILE", help="certificate that vouches for the server (tls/authority.pem)"
        )
        command.add_argument("--token", default=os.environ.get(ADMIN_VARIABLE), help=f"default: ${ADMIN_VARIABLE}")


def _publish(options: argparse.Namespace) -> int:
    return _send(options.file, "/v1/public-set", options)


def _publish_model(options: argparse.Namespace) -> int:
    return _send(find_bundle(options.bundle), "/v1/model", options)


def _send(file: Path, address: str, options: argparse.Namespace) -> int:
    url = urlsplit(options.url)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise AggregatorError(f"--url must look like http://host:port, not {options.url!r}")
    if not options.token:
        raise AggregatorError(f"--token is missing; `auricle-aggregator tokens` prints it (or set {ADMIN_VARIABLE})")
    connection = _connection(url.scheme, url.hostname, url.port, options.authority)
    try:
        body = file.read_bytes()
        path = f"{url.path.rstrip('/')}{address}"
        connection.request("PUT", path, body, {"Authorization": f"Bearer {options.token}"})
        response = connection.getresponse()
        text = response.read().decode()
    except (OSError, http.client.HTTPException) as error:
        raise AggregatorError(f"{file} could not be sent to {options.url}: {error}") from error
    finally:
        connection.close()
    if response.status != 200:
        raise AggregatorError(f"{options.url} refused {file} ({response.status}): {text}")
    print(text)
    return 0


def _connection(scheme: str, host: str, port: int | None, authority: Path | None) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=60)
    try:
        context = ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise AggregatorError(f"--authority {authority} cannot be used: {error}") from error
    return http.client.HTTPSConnection(host, port, timeout=60, context=context)
