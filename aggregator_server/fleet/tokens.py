"""The tokens of people, each with a name, a role, an expiry, and a revocation. Only hashes are kept."""

import math
from dataclasses import dataclass
from typing import cast, get_args

from sqlalchemy import select

from aggregator_server.errors import InvalidRequestError, NotAuthenticatedError, RefusedError
from aggregator_server.fleet.audit import Actor, audit
from aggregator_server.names import check_name
from aggregator_server.schemas import NewToken, Role, TokenInfo, TokenRequest, reply
from aggregator_server.security import draw, hash_secret
from aggregator_server.store.store import Tables
from aggregator_server.store.tables import TokenRow

ROLES: tuple[Role, ...] = get_args(Role)
_LONGEST_S = 100 * 365 * 86_400.0


@dataclass(frozen=True)
class Person:
    """Who a token belongs to, and what it may do."""

    name: str
    role: Role

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
    expires_at = expiry(wanted.expires_s, now)
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
    return Person(f"{row.name} (token {row.token_id})", cast("Role", row.role))


def expiry(seconds: float | None, now: float) -> float | None:
    """Return when it expires after so many seconds; None: never. Raises InvalidRequestError: they cannot be used."""
    if seconds is None:
        return None
    if not (math.isfinite(seconds) and 0 < seconds <= _LONGEST_S):
        raise InvalidRequestError(f"expires_s must be above 0 and at most {_LONGEST_S:g} seconds, not {seconds}")
    return now + seconds
