"""``run``: the server."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator_server.limits import DEVICES_PER_MINUTE
from aggregator_server.logs import configure

if TYPE_CHECKING:
    from aggregator_server.commands import Commands


def add(commands: Commands) -> None:
    """Add the command."""
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
    run.add_argument("--approve", action="store_true", help="let new devices wait until an operator admits them")
    run.add_argument(
        "--enrol-per-minute", type=int, default=DEVICES_PER_MINUTE, metavar="N",
        help=f"new devices that one token may bring in a minute ({DEVICES_PER_MINUTE})",
    )  # fmt: skip
    run.add_argument(
        "--secret-days",
        type=float,
        default=90.0,
        metavar="N",
        help="age at which devices change their secret; 0: never",
    )
    run.add_argument(
        "--tls", choices=("off", "auto"), default="off", help="auto: a certificate by an authority of the server's own"
    )
    run.add_argument("--tls-cert", type=Path, metavar="FILE", help="a certificate from elsewhere, PEM")
    run.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key, PEM")
    run.add_argument(
        "--insecure-http", action="store_true", help="speak plain HTTP although others can read the network"
    )
    run.add_argument("--url", help="the server as devices reach it, for invitations (default: as it listens)")
    run.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="processes that serve; more than one for thousands of devices",
    )
    run.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="json: one object a line, for programs (text)"
    )
    run.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from aggregator_server.web.endpoint import Endpoint
    from aggregator_server.web.server import serve  # heavy: FastAPI and SQLAlchemy
    from aggregator_server.web.service import Terms

    configure(options.log_format)
    endpoint = Endpoint(
        host=options.host, port=options.port, url=options.url, tls_auto=options.tls == "auto",
        tls_cert=options.tls_cert, tls_key=options.tls_key, insecure_http=options.insecure_http,
    )  # fmt: skip
    terms = Terms(devices_per_minute=options.enrol_per_minute, approve=options.approve, secret_days=options.secret_days)
    serve(
        options.data,
        os.environ,
        endpoint,
        terms,
        keep_uploads=options.keep_uploads,
        review_classes=options.review_classes,
        workers=options.workers,
    )
    return 0
