"""The audit: a row for everything that a person may want to explain later, in the transaction that did it.

A row never holds a secret: a token is named by its number, a device by its identifier.
"""

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from aggregator_server.schemas import AuditEntry, reply
from aggregator_server.store.store import Tables
from aggregator_server.store.tables import AuditRow

What = Literal[
    "authentication_failed",
    "class_approved",
    "class_made",
    "class_merged",
    "class_renamed",
    "class_retired",
    "device_admitted",
    "device_enrolled",
    "device_left",
    "device_quarantined",
    "device_released",
    "device_revoked",
    "invitation_made",
    "invitation_revoked",
    "limit_hit",
    "model_published",
    "public_set_published",
    "round_cancelled",
    "round_closed",
    "round_opened",
    "round_restored",
    "sign_in_link_made",
    "signed_in",
    "signed_out",
    "token_made",
    "token_revoked",
]
"""What happened. docs/security.md, "Audit", says what each means and which details it has."""


@dataclass(frozen=True)
class Actor:
    """Who did something."""

    who: str  # name for people: of a token, a device or an invitation
    address: str | None = None  # network address of the request; None where there was none


SERVER = Actor("server")  # what happens by itself, such as the end of a round
COMMAND_LINE = Actor("command line")  # what a person did with ``auricle-aggregator`` on the server's own machine


def audit(session: Session, what: What, by: Actor, now: float, **details: str | float | None) -> None:
    """Note what happened, and to what (never a secret); the row is kept if the session's transaction is."""
    session.add(AuditRow(at=now, who=by.who, address=by.address, what=what, details=details))


def list_entries(tables: Tables, before: int | None, limit: int, what: str | None = None) -> tuple[AuditEntry, ...]:
    """Return so many entries, newest first, with a number below ``before``, of the kind ``what``; None: any."""
    rows = select(AuditRow).order_by(AuditRow.audit_id.desc()).limit(limit)
    if before is not None:
        rows = rows.where(AuditRow.audit_id < before)
    if what is not None:
        rows = rows.where(AuditRow.what == what)
    with tables.reading() as session:
        return tuple(reply(AuditEntry, row) for row in session.scalars(rows))
