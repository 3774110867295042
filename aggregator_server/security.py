"""Tokens and secrets: where the server's two tokens come from, and how secrets are kept and compared."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aggregator_server.errors import StartError
from aggregator_server.store.blobs import sync_folder

ADMIN_VARIABLE = "AURICLE_ADMIN_TOKEN"
ENROL_VARIABLE = "AURICLE_ENROL_TOKEN"
_SHORTEST = 16


@dataclass(frozen=True)
class Tokens:
    """What opens the server: one token for administrators, one for devices that enrol."""

    admin: str = field(repr=False)
    enrol: str = field(repr=False)


def hash_secret(secret: str) -> str:
    """Return what is stored of a device's secret: SHA-256, which is enough for a long random one."""
    return hashlib.sha256(secret.encode()).hexdigest()


def same(left: str, right: str) -> bool:
    """Compare two secrets in a time that does not tell where they differ."""
    return hmac.compare_digest(left.encode(), right.encode())


def load_tokens(folder: Path, environment: Mapping[str, str]) -> Tokens:
    """Return the tokens: from the environment where it gives them, else from ``tokens.json``, drawn on first use.

    Raises:
        StartError: a token is too short, or the file cannot be read or written.
    """
    path = folder / "tokens.json"
    given = {"admin": environment.get(ADMIN_VARIABLE), "enrol": environment.get(ENROL_VARIABLE)}
    try:
        stored = {} if all(given.values()) else _stored(path)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise StartError(f"{path} cannot be used ({error!r}); delete it and new tokens are drawn") from error
    tokens = Tokens(given["admin"] or stored["admin"], given["enrol"] or stored["enrol"])
    for name, token in (("admin", tokens.admin), ("enrolment", tokens.enrol)):
        if len(token) < _SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
            raise StartError(
                f"the {name} token must have at least {_SHORTEST} printable ASCII characters and no blanks; "
                f"set {ADMIN_VARIABLE} and {ENROL_VARIABLE}, or leave them out to have tokens drawn"
            )
    if same(tokens.admin, tokens.enrol):
        raise StartError(f"{ADMIN_VARIABLE} and {ENROL_VARIABLE} must differ: devices know the latter")
    return tokens


def _stored(path: Path) -> dict[str, str]:
    if not path.exists():
        _write(path, {"admin": secrets.token_urlsafe(32), "enrol": secrets.token_urlsafe(32)})
    document = json.loads(path.read_text())
    return {"admin": str(document["admin"]), "enrol": str(document["enrol"])}


def _write(path: Path, tokens: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        json.dump(tokens, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)
