"""What a command acts on: a running server, by a data folder or an address; and things, by their ids or names."""

import argparse
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from aggregator_server.client import Client
from aggregator_server.errors import AggregatorError
from aggregator_server.security import ADMIN_VARIABLE, load_tokens
from aggregator_server.server_address import authority_file, noted_address, read_address


def add_server(parser: argparse.ArgumentParser, *, below: bool = False) -> None:
    """Give a command the options that name a running server; ``below`` as in ``add_json``."""
    default = argparse.SUPPRESS if below else None
    said = "data folder of a server on this machine: holds its address, certificate and token"
    parser.add_argument("--data", type=Path, default=default, help=said)
    parser.add_argument(
        "--url", default=default, help="the server, e.g. http://127.0.0.1:8470 (with --data: where it listened last)"
    )
    said = "certificate that vouches for the server (tls/authority.pem)"
    parser.add_argument("--authority", type=Path, default=default, metavar="FILE", help=said)
    parser.add_argument("--token", default=default, help=f"of a person or the administrator (${ADMIN_VARIABLE})")


def connect(options: argparse.Namespace) -> Client:
    """Return what speaks to the server that the options name. Raises AggregatorError: they name none, or no token."""
    url, authority, token = options.url, options.authority, options.token or os.environ.get(ADMIN_VARIABLE)
    folder: Path | None = options.data
    if folder is not None:
        url = url or noted_address(folder)
        _, vouching = read_address(folder)
        authority = authority or authority_file(folder, url, vouching)
        if not token and (folder / "tokens.json").is_file():
            token = load_tokens(folder, {}).admin
    if url is None:
        raise AggregatorError("--url is missing, or --data: the data folder of a server on this machine")
    if not token:
        raise AggregatorError(f"--token is missing; `auricle-aggregator tokens` prints it (or set {ADMIN_VARIABLE})")
    return Client(url, token, authority)


@dataclass(frozen=True)
class Named:
    """Something that a command can act on; what is not ``present`` counts only where nothing else fits."""

    id: str
    name: str | None
    present: bool = True


def resolve(given: str, known: Iterable[Named], what: str, listing: str, *, prefixes: bool = True) -> str:
    """Return the id of what is meant: by id, by name, or by the beginning of an id where ``prefixes`` may say which.

    ``what`` and ``listing``, its kind and the command that lists such, are for the message. Raises AggregatorError:
    nothing or more than one thing can be meant; the message lists the candidates.
    """
    items = tuple(known)
    folded = given.casefold()
    ways: tuple[Callable[[Named], bool], ...] = (
        lambda item: item.id == given,
        lambda item: item.name == given,
        lambda item: item.name is not None and item.name.casefold() == folded,
        lambda item: prefixes and bool(folded) and item.id.casefold().startswith(folded),
    )
    for fits in ways:
        found = [item for item in items if fits(item)]
        found = [item for item in found if item.present] or found
        if len(found) == 1:
            return found[0].id
        if found:
            several = ", ".join(f"{item.id} ({item.name})" if item.name else item.id for item in found)
            raise AggregatorError(f"{given!r} can be more than one {what}: {several}; write more of the id")
    raise AggregatorError(f"there is no {what} {given!r}; `{listing}` lists them")
