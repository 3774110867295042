"""``auricle-aggregator``: run the server, print its tokens, publish a public set and a model."""

from __future__ import annotations

import argparse
import http.client
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from aggregator_server.errors import AggregatorError
from aggregator_server.security import ADMIN_VARIABLE, ENROL_VARIABLE, load_tokens
from aggregator_server.upkeep import commands as upkeep
from fleet_protocol.errors import AuricleError
from fleet_protocol.ready_bundles import find_bundle


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the process' exit status."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except AuricleError as error:
        print(f"auricle-aggregator: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="auricle-aggregator", description="Combine what devices learned about sounds, without their audio."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run the server")
    run.add_argument("--data", type=Path, required=True, help="folder of the database, the blobs and the tokens")
    run.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine alone)")
    run.add_argument("--port", type=int, default=8470, help="port to listen on; 0 takes a free one (default: 8470)")
    run.add_argument(
        "--keep-uploads",
        choices=("none", "last", "all"),
        nargs="?",
        const="all",
        default="last",
        help="of which rounds that are over what devices sent is kept (default: last, until the next one is over)",
    )
    run.add_argument(
        "--review-classes", action="store_true", help="let new classes wait until an operator approves them"
    )
    run.set_defaults(run=_run)
    tokens = commands.add_parser("tokens", help="print the administrator's and the enrolment token")
    tokens.add_argument("--data", type=Path, required=True, help="the server's data folder")
    tokens.set_defaults(run=_tokens)
    upkeep.add_commands(commands)
    publish = commands.add_parser("publish", help="send a public set to a running server")
    publish.add_argument("file", type=Path, help="the public set")
    publish.set_defaults(run=_publish)
    model = commands.add_parser("publish-model", help="send the fleet's shared model to a running server")
    model.add_argument("bundle", help="file of a bundle, or name of a ready one (`auricle-export list`)")
    model.set_defaults(run=_publish_model)
    for command in (publish, model):
        command.add_argument("--url", required=True, help="the server, e.g. http://127.0.0.1:8470")
        command.add_argument("--token", default=os.environ.get(ADMIN_VARIABLE), help=f"default: ${ADMIN_VARIABLE}")
    return parser


def _run(options: argparse.Namespace) -> int:
    from aggregator_server.web.server import serve  # heavy: FastAPI and SQLAlchemy

    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it tells of every look at a revision
    serve(
        options.data,
        options.host,
        options.port,
        os.environ,
        keep_uploads=options.keep_uploads,
        review_classes=options.review_classes,
    )
    return 0


def _tokens(options: argparse.Namespace) -> int:
    tokens = load_tokens(options.data, os.environ)
    print(json.dumps({"admin": tokens.admin, "enrol": tokens.enrol}))
    if any(name in os.environ for name in (ADMIN_VARIABLE, ENROL_VARIABLE)):
        print("(from the environment; the server must run with the same)", file=sys.stderr)
    return 0


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
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.hostname, url.port, timeout=60)
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


if __name__ == "__main__":
    sys.exit(main())
