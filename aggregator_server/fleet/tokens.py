"""The tokens of people, each with a name, a role, an expiry, and a revocation; and invitations of devices.

An invitation lets a number of devices in, one unless it says more. Of all these only hashes are kept.
"""

import math
from dataclasses import dataclass
from typing import cast, get_args

from sqlalchemy import select
from sqlalchemy.orm import Session

from aggregator_server.errors import InvalidRequestError, InvitationSpentError, NotAuthenticatedError, RefusedError
from aggregator_server.fleet.audit import Actor, audit
from aggregator_server.limits import DEVICES_PER_INVITATION
from aggregator_server.names import check_name
from aggregator_server.schemas import (
    InvitationInfo,
    InvitationRequest,
    NewInvitation,
    NewToken,
    Role,
    TokenInfo,
    TokenRequest,
    reply,
)
from aggregator_server.security import draw, hash_secret
from aggregator_server.store.store import Tables
from aggregator_server.store.tables import InvitationRow, TokenRow

ROLES: tuple[Role, ...] = get_args(Role)
_LONGEST_S = 100 * 365 * 86_400.0


@dataclass(frozen=True)
class Person:
    """Who a token belongs to, and what it may do."""

    name: str
    role: Role
    token_id: int | None = None  # number of the token; None of the administrator's

    def may(self, role: Role) -> bool:
        """Say whether the role reaches as far as another."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def require(self, role: Role) -> None:
        """Check that the role reaches as far as another. Raises RefusedError: it does not."""
        if not self.may(role):
            raise RefusedError("role_too_low", f"{self.name} has the role {self.role}; this needs the role {role}")


FIRST = Person("administrator's token", "admin")  # who has the token of ``tokens.json`` or the environment


def add_token(tables: Tables, wanted: TokenRequest, by: Actor, now: float) -> NewToken:
    """Make a token. Raises InvalidRequestError: its name or its time cannot be used."""
    check_name(wanted.name, "a token's name")
    expires_at = _expiry(wanted.expires_s, now)
    token = draw("user")
    with tables.writing() as session:
        row = TokenRow(
            token_hash=hash_secret(token), name=wanted.name, role=wanted.role, made_at=now, expires_at=expires_at
        )
        session.add(row)
        session.flush()
        audit(session, "token_made", by, now, token_id=row.token_id, name=row.name, role=row.role)
        return NewToken(info=reply(TokenInfo, row), token=token)


def list_tokens(tables: Tables) -> tuple[TokenInfo, ...]:
    """Return every token, revoked and expired ones too, oldest first."""
    with tables.reading() as session:
        return tuple(reply(TokenInfo, row) for row in session.scalars(select(TokenRow).order_by(TokenRow.token_id)))


def revoke_token(tables: Tables, token_id: int, by: Actor, now: float) -> None:
    """Refuse a token from now on; revoking it again changes nothing. Raises RefusedError: there is no such token."""
    with tables.writing() as session:
        row = session.get(TokenRow, token_id)
        if row is None:
            raise RefusedError(
                "token_not_found", f"there is no token {token_id}; `auricle-aggregator tokens list` lists them"
            )
        if row.revoked_at is None:
            row.revoked_at = now
            audit(session, "token_revoked", by, now, token_id=token_id, name=row.name)


def find_token(tables: Tables, token: str) -> int | None:
    """Return the number of somebody's token, also of an expired or revoked one; None where nobody has it."""
    with tables.reading() as session:
        return session.scalar(select(TokenRow.token_id).where(TokenRow.token_hash == hash_secret(token)))


def find_person(tables: Tables, token: str, now: float) -> Person | None:
    """Return who has a token; None: nobody. Raises NotAuthenticatedError: it has expired or was revoked."""
    with tables.reading() as session:
        row = session.scalar(select(TokenRow).where(TokenRow.token_hash == hash_secret(token)))
        return None if row is None else owner_of(row, now)


def owner_of(row: TokenRow, now: float) -> Person:
    """Return who has a token. Raises NotAuthenticatedError: it has expired or was revoked."""
    if row.revoked_at is not None or (row.expires_at is not None and row.expires_at <= now):
        what = "has expired" if row.revoked_at is None else "was revoked"
        raise NotAuthenticatedError(f"token {row.token_id} of {row.name!r} {what}; ask an administrator for another")
    return Person(f"{row.name} (token {row.token_id})", cast("Role", row.role), row.token_id)


def _expiry(seconds: float | None, now: float) -> float | None:
    """Return when it expires after so many seconds; None: never. Raises InvalidRequestError: they cannot be used."""
    if seconds is None:
        return None
    if not (math.isfinite(seconds) and 0 < seconds <= _LONGEST_S):
        raise InvalidRequestError(f"expires_s must be above 0 and at most {_LONGEST_S:g} seconds, not {seconds}")
    return now + seconds


def invite(tables: Tables, wanted: InvitationRequest, by: Actor, now: float) -> NewInvitation:
    """Make an invitation. Raises InvalidRequestError: its number, its time or its group cannot be used."""
    if not 1 <= wanted.devices <= DEVICES_PER_INVITATION:
        raise InvalidRequestError(f"devices must be from 1 to {DEVICES_PER_INVITATION}, not {wanted.devices}")
    if wanted.group is not None:
        check_name(wanted.group, "a group's name")
    expires_at = _expiry(wanted.expires_s, now)
    token = draw("join")
    with tables.writing() as session:
        row = InvitationRow(
            token_hash=hash_secret(token),
            devices=wanted.devices,
            used=0,
            group_name=wanted.group,
            made_at=now,
            expires_at=expires_at,
        )
        session.add(row)
        session.flush()
        audit(session, "invitation_made", by, now, invitation_id=row.invitation_id, devices=row.devices)
        return NewInvitation(info=_invitation_info(row), token=token)


def list_invitations(tables: Tables) -> tuple[InvitationInfo, ...]:
    """Return every invitation, spent ones too, oldest first."""
    with tables.reading() as session:
        rows = session.scalars(select(InvitationRow).order_by(InvitationRow.invitation_id))
        return tuple(_invitation_info(row) for row in rows)


def revoke_invitation(tables: Tables, invitation_id: int, by: Actor, now: float) -> None:
    """Let nobody in from now on; devices that joined by it stay. Raises RefusedError: there is no such invitation."""
    with tables.writing() as session:
        row = session.get(InvitationRow, invitation_id)
        if row is None:
            raise RefusedError(
                "invitation_not_found",
                f"there is no invitation {invitation_id}; `auricle-aggregator invitations` lists them",
            )
        if row.revoked_at is None:
            row.revoked_at = now
            audit(session, "invitation_revoked", by, now, invitation_id=invitation_id)


def find_invitation(tables: Tables, token: str) -> int | None:
    """Return an invitation's number, also where it is spent; None where there is none with that token."""
    with tables.reading() as session:
        rows = select(InvitationRow.invitation_id).where(InvitationRow.token_hash == hash_secret(token))
        return session.scalar(rows)


def require_open(session: Session, invitation_id: int, now: float) -> InvitationRow:
    """Return an invitation that lets one more device in. Raises InvitationSpentError: it lets nobody in any more."""
    row = session.get_one(InvitationRow, invitation_id)
    reason = None
    if row.revoked_at is not None:
        reason = "was revoked"
    elif row.expires_at is not None and row.expires_at <= now:
        reason = "has expired"
    elif row.used >= row.devices:
        reason = f"was used by {row.used} device{'s' if row.used > 1 else ''} already"
    if reason is not None:
        raise InvitationSpentError(
            f"invitation {invitation_id} {reason}; ask for a new one (`auricle-aggregator invite`)"
        )
    return row


def _invitation_info(row: InvitationRow) -> InvitationInfo:
    return reply(InvitationInfo, row, group=row.group_name)
