"""Who may open the page: its token, and the names under which browsers may ask for it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

from edge_client.config.sections import UiConfig
from edge_client.errors import ConfigError
from fleet_protocol.atomic_files import write_durably

_KEY = "page.key"
# 80 bits: nobody guesses them, and a person can type them.
_BYTES = 10
_LOCAL = ("localhost", "127.0.0.1", "::1")


def page_token(state: Path, *, new: bool = False) -> str:
    """Return the token with which a browser signs in, like ``k3vq-52xc-qe7h-ma4t``; drawn on first use.

    Args:
        state: state folder, in which the token is kept, readable by the device's user alone.
        new: whether to draw another.

    Raises:
        OSError: the folder cannot be read or written.
    """
    path = state / _KEY
    if new or not path.exists():
        drawn = base64.b32encode(secrets.token_bytes(_BYTES)).decode().lower()
        write_durably(path, "-".join(drawn[at : at + 4] for at in range(0, len(drawn), 4)).encode())
    return path.read_text(encoding="ascii", errors="replace").strip()


@dataclass(frozen=True)
class Access:
    """What the page asks of a browser.

    Attributes:
        token: Token of the page.
        names: Names under which browsers may ask for it, in lower case.
        any_address: Whether they may ask for any numeric address. (A name can be made to lead here by whoever owns
            it, DNS rebinding; a number cannot.)
        sign_in: Whether the token is asked for.
    """

    token: str
    names: frozenset[str]
    any_address: bool
    sign_in: bool

    @classmethod
    def of(cls, config: UiConfig, token: str) -> Access:
        """Return what the configuration asks for.

        Raises:
            ConfigError: it would be reachable from elsewhere, where others can read along, and nobody said so.
        """
        local = _is_local(config.host)
        if not local and not config.insecure_http:
            raise ConfigError(
                f"host = {config.host!r}: the page is plain HTTP, so others in the network could read along. Leave it "
                f"on this machine and forward the port (ssh -L {config.port or 8471}:localhost:{config.port or 8471} "
                "USER@DEVICE), or allow it with --insecure-http or insecure_http = true in [ui]"
            )
        machine = socket.gethostname().lower()
        beyond = set() if local else {machine, f"{machine}.local", config.host.lower()}
        names = frozenset({*_LOCAL, *beyond, *(name.lower() for name in config.names)})
        return cls(token, names, any_address=not local, sign_in=not local or bool(config.names))

    def knows(self, host: str) -> bool:
        """Return whether a browser may ask for the page under this name, without a port."""
        if host.lower() in self.names:
            return True
        return self.any_address and _is_address(host)

    def is_token(self, given: str) -> bool:
        """Return whether somebody gave the token; blanks, dashes and case do not count."""
        plain, wanted = (text.replace("-", "").replace(" ", "").lower().encode() for text in (given, self.token))
        return hmac.compare_digest(plain, wanted)

    def sign(self, purpose: str) -> str:
        """Return what only this page can know for a purpose: 64 hex digits."""
        return hmac.digest(self.token.encode(), purpose.encode(), hashlib.sha256).hex()

    def is_signed(self, given: str, purpose: str) -> bool:
        """Return whether somebody gave what :meth:`sign` returned."""
        return hmac.compare_digest(given.encode(), self.sign(purpose).encode())


def _is_local(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
