"""Invitations: each lets a number of devices in, one unless it says more. Only their hashes are kept."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from aggregator_server.errors import InvalidRequestError, InvitationSpentError, RefusedError
from aggregator_server.fleet.audit import Actor, audit
from aggregator_server.fleet.tokens import expiry
from aggregator_server.limits import DEVICES_PER_INVITATION
from aggregator_server.names import check_name
from aggregator_server.schemas import InvitationInfo, InvitationRequest, NewInvitation, reply
from aggregator_server.security import draw, hash_secret
from aggregator_server.store.store import Tables
from aggregator_server.store.tables import InvitationRow


def invite(tables: Tables, wanted: InvitationRequest, by: Actor, now: float) -> NewInvitation:
    """Make an invitation. Raises InvalidRequestError: its number, its time or its group cannot be used."""
    if not 1 <= wanted.devices <= DEVICES_PER_INVITATION:
        raise InvalidRequestError(f"devices must be from 1 to {DEVICES_PER_INVITATION}, not {wanted.devices}")
    if wanted.group is not None:
        check_name(wanted.group, "a group's name")
    expires_at = expiry(wanted.expires_s, now)
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
        return NewInvitation(info=_info(row), token=token)


def list_invitations(tables: Tables) -> tuple[InvitationInfo, ...]:
    """Return every invitation, spent ones too, oldest first."""
    with tables.reading() as session:
        rows = session.scalars(select(InvitationRow).order_by(InvitationRow.invitation_id))
        return tuple(_info(row) for row in rows)


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


def _info(row: InvitationRow) -> InvitationInfo:
    return reply(InvitationInfo, row, group=row.group_name)
