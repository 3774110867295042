"""Where the server is reached: noted in the data folder when it starts, and read when a device is invited."""

import json
import shlex
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from aggregator_server.errors import AggregatorError, InvalidRequestError
from fleet_protocol.ground.addresses import address_problem, without_password
from fleet_protocol.ground.atomic_files import write_durably
from fleet_protocol.messages.invitation_link import InvitationLink

ONCE = "/sign-in/once"  # of the page for links that sign in once
_NAME = "address.json"
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104  (compared, not listened on)
# Of the network for examples (RFC 5737): a route to it is looked up, and nothing is sent.
_ELSEWHERE = ("192.0.2.1", 9)


def own_address() -> str:
    """Return this machine's address in its network; its name where it has no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
        except OSError:
            return socket.gethostname()
        return str(probe.getsockname()[0])


def reachable_host(host: str) -> str:
    """Return the host by which others reach a server that listens on ``host``."""
    return own_address() if host in _EVERYWHERE else host


def note_address(folder: Path, url: str, authority: str | None) -> None:
    """Note where the server is reached, and the SHA-256 of its own authority, for invitations to come."""
    noted = {"url": url, "authority": authority}
    write_durably(folder / _NAME, json.dumps(noted).encode())


def read_address(folder: Path) -> tuple[str | None, str | None]:
    """Return (the server's address, its authority's SHA-256), each None if unknown. Raises AggregatorError."""
    try:
        noted = json.loads((folder / _NAME).read_bytes())
    except FileNotFoundError:
        return None, None
    except ValueError as error:
        raise AggregatorError(
            f"{folder / _NAME} is damaged ({error}); start the server, which writes it anew"
        ) from error
    return noted["url"], noted["authority"]


def require_address(url: str) -> None:
    """Check the address by which devices reach a fleet. Raises InvalidRequestError: it cannot be used."""
    if problem := address_problem(url):
        raise InvalidRequestError(f"--url must look like https://host:port; {without_password(url)[:200]!r} {problem}")


def authority_file(folder: Path, url: str, authority: str | None) -> Path | None:
    """Return the certificate that vouches for a folder's server; None where it has no ``authority`` (a SHA-256)."""
    return folder / "tls" / "authority.pem" if authority is not None and url.startswith("https:") else None


def noted_address(folder: Path) -> str:
    """Return where a folder's server was reached last. Raises AggregatorError: nobody knows it."""
    url, _ = read_address(folder)
    if url is None:
        raise AggregatorError(f"nobody knows where the server of {folder} listens: start it first, or give --url")
    return url


def sign_in_link(url: str, secret: str) -> str:
    """Return the link that signs somebody in once. What stands behind ``#`` no browser sends, so no proxy logs it."""
    return f"{url}{ONCE}#{secret}"


def said_of_link(folder: Path) -> str:
    """Return what a person has to know of a link that signs in once."""
    command = f"auricle-aggregator tokens link --data {shlex.quote(str(folder))}"
    return f"(the link works once, within a minute; another: {command})"


def make_link(folder: Path, url: str | None) -> Callable[[str], str]:
    """Return what makes an invitation's link from its token; ``url`` None: to where the server was reached last.

    Raises InvalidRequestError: the address is none. AggregatorError: nobody knows it.
    """
    _, authority = read_address(folder)
    address = url or noted_address(folder)
    require_address(address)
    vouching = authority if urlsplit(address).scheme == "https" else None
    return lambda token: str(InvitationLink(address, token, vouching))
