"""Tokens and secrets: how they are drawn, kept and compared, and where the server's first two tokens come from."""

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aggregator_server.errors import StartError
from fleet_protocol.ground.atomic_files import write_durably

ADMIN_VARIABLE = "AURICLE_ADMIN_TOKEN"
ENROL_VARIABLE = "AURICLE_ENROL_TOKEN"
_PREFIX = "aur_"
USER_PREFIX = f"{_PREFIX}user_"  # what the tokens of people begin with
ONCE_PREFIX = f"{_PREFIX}once_"  # and what signs in once
_MIN_LENGTH = 16


@dataclass(frozen=True)
class Tokens:
    """The server's tokens: one for administrators, one for devices that enrol."""

    admin: str = field(repr=False)
    enrol: str = field(repr=False)


def hash_secret(secret: str) -> str:
    """Return what is stored of a device's secret: SHA-256, which is enough for a long random one."""
    return hashlib.sha256(secret.encode()).hexdigest()


def same(left: str, right: str) -> bool:
    """Compare two secrets in a time that does not depend on where they differ."""
    return hmac.compare_digest(left.encode(), right.encode())


def draw(kind: str) -> str:
    """Draw a token whose prefix says what it is, and which no command line takes for an option: ``aur_kind_...``."""
    return f"{_PREFIX}{kind}_{secrets.token_urlsafe(32)}"


def load_tokens(folder: Path, environment: Mapping[str, str]) -> Tokens:
    """Return the environment's tokens, or those of ``tokens.json``, drawn at first. Raises StartError: one is bad."""
    path = folder / "tokens.json"
    given = {"admin": environment.get(ADMIN_VARIABLE), "enrol": environment.get(ENROL_VARIABLE)}
    try:
        stored = {} if all(given.values()) else _stored(path)
    except (OSError, ValueError, TypeError, KeyError) as error:
        from aggregator_server.store.free_space import full, is_full  # heavy: SQLAlchemy

        if is_full(error, folder):
            raise full(folder) from error
        raise StartError(f"{path} cannot be used ({error!r}); delete it and new tokens are drawn") from error
    tokens = Tokens(given["admin"] or stored["admin"], given["enrol"] or stored["enrol"])
    for name, token in (("admin", tokens.admin), ("enrolment", tokens.enrol)):
        if len(token) < _MIN_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
            raise StartError(
                f"the {name} token must have at least {_MIN_LENGTH} printable ASCII characters and no blanks; "
                + (
                    f"set {ADMIN_VARIABLE} and {ENROL_VARIABLE}, or leave them out to have tokens drawn"
                    if token in given.values()
                    else f"delete {path} and new tokens are drawn"
                )
            )
    if same(tokens.admin, tokens.enrol):
        raise StartError(f"{ADMIN_VARIABLE} and {ENROL_VARIABLE} must differ: devices know the latter")
    return tokens


def _stored(path: Path) -> dict[str, str]:
    if not path.exists():
        drawn = {"admin": draw("admin"), "enrol": draw("enrol")}
        write_durably(path, json.dumps(drawn, indent=1).encode())
    document = json.loads(path.read_text())
    return {"admin": str(document["admin"]), "enrol": str(document["enrol"])}
