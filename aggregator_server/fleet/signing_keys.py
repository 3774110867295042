"""The keys that devices sign with in private rounds (docs/private-rounds.md), as they say when they enrol."""

import re

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from aggregator_server.errors import InvalidRequestError
from aggregator_server.store.tables import SigningKeyRow, table_of

_KEY = re.compile(r"[0-9a-f]{64}")
_KEYS = table_of(SigningKeyRow)
WITH_KEY = select(_KEYS.c.device_id)
"""The devices that can take part in private rounds, for conditions of queries."""


def check_signing_key(key: str) -> None:
    """Check a key, or "" for none. Raises InvalidRequestError: it cannot be one."""
    if key and not _KEY.fullmatch(key):
        raise InvalidRequestError(f"signing_key must be 64 lower-case hex digits or left out, not {key[:80]!r}")


def note_signing_key(session: Session, device_id: str, key: str) -> None:
    """Keep the key of a device that there is; "": it has none, or none any more."""
    known = session.get(SigningKeyRow, device_id)
    if not key:
        if known is not None:
            session.execute(delete(SigningKeyRow).where(SigningKeyRow.device_id == device_id))
    elif known is None:
        session.add(SigningKeyRow(device_id=device_id, key=key))
    else:
        known.key = key
