"""Who is signed in to the dashboard. A session ends by itself, by signing out, and with the token that it began with.

The browser keeps a random secret, the server its hash. So neither the database nor a copy of it opens a session.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from sqlalchemy import delete, select

from aggregator_server.errors import NotAuthenticatedError
from aggregator_server.fleet.audit import Actor, audit
from aggregator_server.fleet.tokens import FIRST, Person, find_person, find_token, person_of
from aggregator_server.limits import SESSION_S, SESSIONS_PER_TOKEN
from aggregator_server.security import hash_secret, same
from aggregator_server.store import Tables
from aggregator_server.store.tables import SessionRow


def draw_session() -> str:
    """Draw a session's secret; it opens nothing until somebody signs in with it."""
    return secrets.token_urlsafe(32)


def form_token(secret: str) -> str:
    """Return what the forms of a session's pages carry: nobody can make it who does not know the secret."""
    return _mark(secret, "form")


def sign_in(tables: Tables, token: str, first: str, address: str | None, now: float) -> str:
    """Begin a session and return its secret.

    Args:
        tables: the fleet's.
        token: what the person shows.
        first: the administrator's token, of ``tokens.json`` or the environment.
        address: network address of the request.
        now: seconds since 1970.

    Raises:
        NotAuthenticatedError: nobody has the token, or it has expired or was revoked.
    """
    secret, token_id, proof = draw_session(), None, None
    person: Person | None = FIRST
    if same(token, first):
        proof = _mark(secret, first)
    else:
        person, token_id = find_person(tables, token, now), find_token(tables, token)
    if person is None:
        raise NotAuthenticatedError("nobody has this token; `auricle-aggregator tokens add` makes one")
    with tables.writing() as session:
        session.execute(delete(SessionRow).where(SessionRow.expires_at <= now))
        own = select(SessionRow.session_hash).where(SessionRow.token_id.is_not_distinct_from(token_id))
        newest = own.order_by(SessionRow.made_at.desc()).limit(SESSIONS_PER_TOKEN - 1)
        kept = session.scalars(newest).all()
        session.execute(
            delete(SessionRow)
            .where(SessionRow.token_id.is_not_distinct_from(token_id))
            .where(SessionRow.session_hash.not_in(kept))
        )
        session.add(
            SessionRow(
                session_hash=hash_secret(secret),
                token_id=token_id,
                proof=proof,
                made_at=now,
                expires_at=now + SESSION_S,
            )
        )
        audit(session, "signed_in", Actor(person.name, address), now, role=person.role)
    return secret


def find_session(tables: Tables, secret: str, first: str, now: float) -> Person | None:
    """Return who is signed in; None where the session is none, has ended, or its token is no longer good."""
    with tables.reading() as session:
        row = session.get(SessionRow, hash_secret(secret))
        if row is None or row.expires_at <= now:
            return None
        if row.token_id is None:
            return FIRST if same(str(row.proof), _mark(secret, first)) else None
        try:
            return person_of(session, row.token_id, now)
        except NotAuthenticatedError:
            return None


def sign_out(tables: Tables, secret: str, by: Actor, now: float) -> None:
    """End a session; one that is none changes nothing."""
    with tables.writing() as session:
        row = session.get(SessionRow, hash_secret(secret))
        if row is not None:
            session.delete(row)
            audit(session, "signed_out", by, now)


def _mark(secret: str, what: str) -> str:
    return hmac.new(secret.encode(), what.encode(), hashlib.sha256).hexdigest()
