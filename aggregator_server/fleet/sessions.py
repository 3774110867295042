"""Who is signed in to the dashboard: by a token, or by a link that works once.

A session ends by itself, by signing out, and with the token that it began with. The browser keeps a random secret, the
server its hash: neither the database nor a copy of it opens a session. A link's row looks like a session's; the secret
of a link is told by its beginning, and opens no page.
"""

import hashlib
import hmac
import secrets

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from aggregator_server.errors import NotAuthenticatedError
from aggregator_server.fleet.audit import Actor, audit
from aggregator_server.fleet.tokens import FIRST, Person, find_person, owner_of
from aggregator_server.limits import SESSION_S, SESSIONS_PER_TOKEN, SIGN_IN_LINK_S
from aggregator_server.security import ONCE_PREFIX, draw, hash_secret, same
from aggregator_server.store.store import Tables
from aggregator_server.store.tables import SessionRow, TokenRow


def make_once(tables: Tables, first: str, by: Actor, now: float) -> str:
    """Return a secret that signs somebody in once, within a minute, as whoever has the administrator's ``first``."""
    secret = draw("once")
    with tables.writing() as session:
        session.add(_row(secret, None, _mark(secret, first), now, SIGN_IN_LINK_S))
        audit(session, "sign_in_link_made", by, now)
    return secret


def sign_in(tables: Tables, token: str, first: str, address: str | None, now: float) -> str:
    """Begin a session, and return its secret: by a person's token, the administrator's ``first``, or a link's secret.

    Raises NotAuthenticatedError: nobody has the token, it has expired or was revoked; the link was used, or is old.
    """
    secret, once = secrets.token_urlsafe(32), token.startswith(ONCE_PREFIX)
    person = FIRST if once or same(token, first) else find_person(tables, token, now)
    if person is None:
        raise NotAuthenticatedError("nobody has this token; `auricle-aggregator tokens add` makes one")
    with tables.writing() as session:
        if once:
            _use_up(session, token, first, now)
        session.execute(delete(SessionRow).where(SessionRow.expires_at <= now))
        of_token = SessionRow.token_id.is_not_distinct_from(person.token_id)
        own = select(SessionRow.session_hash).where(of_token).order_by(SessionRow.made_at.desc())
        kept = session.scalars(own.limit(SESSIONS_PER_TOKEN - 1)).all()
        session.execute(delete(SessionRow).where(of_token, SessionRow.session_hash.not_in(kept)))
        proof = _mark(secret, first) if person.token_id is None else None
        session.add(_row(secret, person.token_id, proof, now, SESSION_S))
        audit(session, "signed_in", Actor(person.name, address), now, role=person.role)
    return secret


def _use_up(session: Session, secret: str, first: str, now: float) -> None:
    """Forget a link's secret, so that nobody signs in by it again. Raises NotAuthenticatedError: it is no use."""
    row = session.get(SessionRow, hash_secret(secret))
    if row is None or row.expires_at <= now or not same(str(row.proof), _mark(secret, first)):
        raise NotAuthenticatedError(
            f"this link was used, or is older than {SIGN_IN_LINK_S:g} seconds; `auricle-aggregator tokens link` makes "
            "another"
        )
    session.delete(row)


def find_session(tables: Tables, secret: str, first: str, now: float) -> Person | None:
    """Return who is signed in; None where the session is none, has ended, or its token is no longer good."""
    if secret.startswith(ONCE_PREFIX):
        return None
    with tables.reading() as session:
        row = session.get(SessionRow, hash_secret(secret))
        if row is None or row.expires_at <= now:
            return None
        if row.token_id is None:
            return FIRST if same(str(row.proof), _mark(secret, first)) else None
        try:
            return owner_of(session.get_one(TokenRow, row.token_id), now)
        except NotAuthenticatedError:
            return None


def sign_out(tables: Tables, secret: str, by: Actor, now: float) -> None:
    """End a session; one that is none changes nothing."""
    with tables.writing() as session:
        row = session.get(SessionRow, hash_secret(secret))
        if row is not None:
            session.delete(row)
            audit(session, "signed_out", by, now)


def _row(secret: str, token_id: int | None, proof: str | None, now: float, lasts_s: float) -> SessionRow:
    return SessionRow(
        session_hash=hash_secret(secret), token_id=token_id, proof=proof, made_at=now, expires_at=now + lasts_s
    )


def _mark(secret: str, what: str) -> str:
    return hmac.new(secret.encode(), what.encode(), hashlib.sha256).hexdigest()
