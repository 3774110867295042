"""``run``: the server."""

import argparse
import ipaddress
import os
import shlex
import sys
from pathlib import Path

from aggregator_server.commands import Commands, add_state, location_of
from aggregator_server.errors import StartError
from aggregator_server.limits import DEVICES_NEEDED, DEVICES_PER_MINUTE, SENDERS
from aggregator_server.logs import configure
from aggregator_server.store.location import Location
from aggregator_server.web.listening import Listening, ProxyNetwork

_HOST, _PORT = "127.0.0.1", 8470


def add(commands: Commands) -> None:
    """Add the command."""
    run = commands.add_parser("run", help="run the server")
    run.add_argument("--data", type=Path, required=True, help="folder of the database, the blobs and the tokens")
    add_state(run)
    run.add_argument("--create", action="store_true", help="begin a new fleet where --data names a folder without one")
    add_listening(run)
    run.add_argument("--approve", action="store_true", help="let new devices wait until an operator admits them")
    said = (
        f"devices that must have been taught a new sound before others listen for it; 1: for the devices of one "
        f"household ({DEVICES_NEEDED})"
    )
    run.add_argument("--devices-needed", type=_needed, default=DEVICES_NEEDED, metavar="N", help=said)
    said = f"new devices that one token may bring in a minute ({DEVICES_PER_MINUTE})"
    run.add_argument("--enrol-per-minute", type=int, default=DEVICES_PER_MINUTE, metavar="N", help=said)
    said = "address or network of a proxy whose X-Forwarded-For and X-Forwarded-Proto are believed; may be repeated"
    run.add_argument("--behind-proxy", type=_proxy, action="append", default=[], metavar="ADDRESS", help=said)
    run.set_defaults(run=_run)


def _needed(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= SENDERS:
        raise argparse.ArgumentTypeError(f"must be from 1 to {SENDERS}, not {text}")
    return int(text)


def _proxy(text: str) -> ProxyNetwork:
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; name the proxy's address, as 127.0.0.1 or 172.18.0.0/16") from None
    if not network.prefixlen:
        raise argparse.ArgumentTypeError(f"{network} is every address, so any client could make up its own")
    return network


def add_listening(parser: argparse.ArgumentParser) -> None:
    """Give a command the options that say where the server listens, and how it speaks."""
    parser.add_argument("--host", default=_HOST, help="address to listen on (default: this machine alone)")
    parser.add_argument("--port", type=int, default=_PORT, help=f"port to listen on; 0 takes a free one ({_PORT})")
    said = (
        "auto: a certificate by an authority of the server's own; proxy: the same, for a proxy in front to speak "
        "TLS with (default: off)"
    )
    parser.add_argument("--tls", choices=("off", "auto", "proxy"), default="off", help=said)
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="a certificate from elsewhere, PEM")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key, PEM")
    parser.add_argument(
        "--insecure-http", action="store_true", help="speak plain HTTP although others can read the network"
    )
    said = (
        "the server as devices reach it, for invitations (default: as it listens); of several the first is in "
        "invitations, and the certificate names all"
    )
    parser.add_argument("--url", action="append", default=[], help=said)


def listening_of(options: argparse.Namespace) -> Listening:
    """Return where the server listens, as the options say."""
    return Listening(
        host=options.host,
        port=options.port,
        urls=tuple(options.url),
        tls_mode=options.tls,
        tls_cert=options.tls_cert,
        tls_key=options.tls_key,
        insecure_http=options.insecure_http,
    )


def options_of_run(options: argparse.Namespace) -> str:
    """Return the same options as text, with a blank before each; those that have their default are left out."""
    given = {
        "--host": options.host != _HOST and options.host,
        "--port": options.port != _PORT and options.port,
        "--tls": options.tls != "off" and options.tls,
        "--tls-cert": options.tls_cert,
        "--tls-key": options.tls_key,
    }
    words = [f" {name} {shlex.quote(str(value))}" for name, value in given.items() if value]
    words += [f" --url {shlex.quote(url)}" for url in options.url]
    return "".join(words) + (" --insecure-http" if options.insecure_http else "")


def _require_fleet(place: Location) -> None:
    """Check that a data folder, or a database, was meant; at a terminal, ask whether to begin a fleet there."""
    from aggregator_server.store.data_folder import why_not_meant

    found = why_not_meant(place)
    if found is None:
        return
    data = place.data
    if not sys.stdin.isatty():
        raise StartError(f"no fleet is in {data}: {found}. Name the folder of your fleet, or begin one with --create")
    print(f"No fleet is in {data}: {found}. Begin a new one there? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise KeyboardInterrupt


def _run(options: argparse.Namespace) -> int:
    from aggregator_server.store.free_space import full, is_full
    from aggregator_server.web.process import serve  # heavy: FastAPI and SQLAlchemy
    from aggregator_server.web.service import Terms

    place = location_of(options)
    if not options.create:
        _require_fleet(place)
    configure()
    listening = listening_of(options)
    terms = Terms(
        devices_per_minute=options.enrol_per_minute, approve=options.approve, devices_needed=options.devices_needed
    )
    try:
        serve(place, os.environ, listening, terms, tuple(options.behind_proxy))
    except OSError as error:
        if is_full(error, options.data):
            raise full(options.data) from error
        raise
    return 0
