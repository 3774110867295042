"""Enrolment: what a device says of itself is checked and kept, and a new one is let in by whoever invited it."""

import re
from dataclasses import asdict, dataclass

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from aggregator_server.errors import InvalidRequestError, NotAuthenticatedError, RefusedError, TooManyError
from aggregator_server.fleet.audit import SERVER, Actor, audit
from aggregator_server.fleet.classes import all_classes
from aggregator_server.fleet.devices import OTHER_FRONT_END, require_not_revoked
from aggregator_server.fleet.publications import require_fleets_features
from aggregator_server.fleet.tokens import require_open
from aggregator_server.limits import CLIPS, DEVICES_PER_ENROLMENT_TOKEN
from aggregator_server.names import check_name
from aggregator_server.security import hash_secret, same
from aggregator_server.store.store import Store
from aggregator_server.store.tables import DeviceRow, LearnedRow, SigningKeyRow
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.errors import ProtocolError
from fleet_protocol.limits import LABELS, VERSION_LENGTH
from fleet_protocol.messages.rest import Enrolled, Enrolment, Versions
from fleet_protocol.numbers.tensors import is_digest

_DEVICE_ID = re.compile(r"[0-9a-f]{32}")
_SECRET = re.compile(r"[!-~]{32,256}")
_MINUTE_S, _HOUR_S = 60.0, 3_600.0


@dataclass(frozen=True)
class Entry:
    """How a device comes in."""

    by: Actor = SERVER  # owner of the token that it brings
    invitation_id: int | None = None  # number of its invitation; None where it brings none
    device_id: str | None = None  # device that enrols again by its own secret; None where it brings another token
    per_minute: int | None = None  # number of new devices that the token may bring in a minute; None: any
    approve: bool = False  # whether an operator has to admit new devices


def enrol(store: Store, enrolment: Enrolment, now: float, entry: Entry = Entry()) -> Enrolled:
    """Take a device into the fleet. A device may enrol again, which updates what the server knows of it.

    It is a member for good once the store is flushed. Raises InvalidRequestError: a field cannot be used. RefusedError:
    features, identifier or secret do not fit. DeviceRevokedError: it was revoked. InvitationSpentError, TooManyError:
    the token lets nobody in, now or any more. NotAuthenticatedError: it is new, and brings another device's secret.
    """
    settings, versions = _check(enrolment), _check_versions(enrolment.versions)
    secret_hash = hash_secret(enrolment.secret)
    with store.writing(durable=False) as session:
        row = session.get(DeviceRow, enrolment.device_id)
        require_fleets_features(session, settings, f"device {enrolment.name!r}", OTHER_FRONT_END)
        if row is None:
            row = _insert(session, enrolment, secret_hash, now, entry)
        elif not same(row.secret_hash, secret_hash):
            raise RefusedError(
                "device_taken",
                f"device {enrolment.device_id} is enrolled with another secret; a new device draws a new identifier",
            )
        require_not_revoked(row)
        if row.features_digest is not None and row.features_digest != settings.digest:
            # Its model began anew on another front end, so it learns the rounds' results again.
            session.execute(delete(LearnedRow).where(LearnedRow.device_id == row.device_id))
        row.name, row.architecture = enrolment.name, enrolment.architecture
        row.features, row.features_digest = settings.to_json(), settings.digest
        row.labels, row.seen_at = list(enrolment.labels), now
        row.clips = enrolment.clips or row.clips
        row.network, row.trouble = enrolment.network or None, enrolment.trouble or None
        row.versions = versions
        session.flush()  # a new device's row is there before that of its key
        _note_signing_key(session, row.device_id, enrolment.signing_key)
        return Enrolled(enrolment.device_id, all_classes(session), row.waiting)


def _insert(session: Session, enrolment: Enrolment, secret_hash: str, now: float, entry: Entry) -> DeviceRow:
    if entry.device_id is not None:
        raise NotAuthenticatedError("a new device needs an invitation or the enrolment token, not a device's secret")
    if session.scalar(select(DeviceRow.device_id).where(DeviceRow.secret_hash == secret_hash)):
        raise RefusedError("secret_taken", "another device enrolled with this secret; draw a new random one")
    if entry.per_minute is not None:
        _require_quota(session, entry.per_minute, entry.invitation_id, now)
    invitation = None if entry.invitation_id is None else require_open(session, entry.invitation_id, now)
    if invitation is not None:
        invitation.used += 1
    row = DeviceRow(
        device_id=enrolment.device_id,
        secret_hash=secret_hash,
        enrolled_at=now,
        clips=0,
        waiting=entry.approve,
        invitation_id=entry.invitation_id,
        group_name=None if invitation is None else invitation.group_name,
    )
    session.add(row)
    about: dict[str, str | None] = {"device_id": row.device_id, "name": enrolment.name, "group": row.group_name}
    audit(session, "device_enrolled", entry.by, now, waiting=entry.approve, **about)
    return row


def _require_quota(session: Session, per_minute: int, invitation_id: int | None, now: float) -> None:
    whose = DeviceRow.invitation_id == invitation_id  # IS NULL for the enrolment token's
    brought = select(func.count()).select_from(DeviceRow).where(whose)
    lately = session.scalar(brought.where(DeviceRow.enrolled_at > now - _MINUTE_S)) or 0
    if lately >= per_minute:
        raise TooManyError(f"{lately} devices enrolled with this token within a minute; try again later", _MINUTE_S)
    if invitation_id is None and (session.scalar(brought) or 0) >= DEVICES_PER_ENROLMENT_TOKEN:
        raise TooManyError(
            f"{DEVICES_PER_ENROLMENT_TOKEN} devices enrolled with the enrolment token, and no more may; invite others "
            "(`auricle-aggregator invite`)",
            _HOUR_S,
        )


def _check(enrolment: Enrolment) -> FeatureSettings:
    if not _DEVICE_ID.fullmatch(enrolment.device_id):
        raise InvalidRequestError(f"device_id must be 32 lower-case hex digits, not {enrolment.device_id[:80]!r}")
    if not _SECRET.fullmatch(enrolment.secret):
        raise InvalidRequestError("secret must be 32 to 256 printable ASCII characters without blanks")
    check_name(enrolment.name, "a device's name")
    check_name(enrolment.architecture, "an architecture's name")
    if not 0 <= enrolment.clips < CLIPS:
        raise InvalidRequestError(f"clips must be from 0 to {CLIPS - 1}, not {enrolment.clips}")
    for name in ("network", "signing_key"):
        text = getattr(enrolment, name)
        if text and not is_digest(text):
            raise InvalidRequestError(f"{name} must be 64 lower-case hex digits or left out, not {text[:80]!r}")
    if enrolment.trouble:
        check_name(enrolment.trouble, "a device's trouble")
    if len(enrolment.labels) > LABELS:
        raise InvalidRequestError(f"{len(enrolment.labels)} labels are more than the {LABELS} that are allowed")
    for label in enrolment.labels:
        check_name(label, "a label")
    try:
        check_name(str(enrolment.features.get("preset")), "the features' preset")
        return FeatureSettings.from_json(enrolment.features)
    except ProtocolError as error:
        raise InvalidRequestError(f"features: {error}") from error


def _check_versions(versions: Versions) -> dict[str, str] | None:
    """Return what a device says that it runs, as a row keeps it. Raises InvalidRequestError: a text cannot be used."""
    said = {name: text for name, text in asdict(versions).items() if text}
    for name, text in said.items():
        check_name(text, f"versions.{name}", VERSION_LENGTH)
    if versions.bundle_sha256 and not is_digest(versions.bundle_sha256):
        raise InvalidRequestError(
            f"versions.bundle_sha256 must be 64 lower-case hex digits or left out, not {versions.bundle_sha256!r}"
        )
    return said or None


def _note_signing_key(session: Session, device_id: str, key: str) -> None:
    """Keep the key that a device signs with in private rounds; "": it has none, or none any more."""
    known = session.get(SigningKeyRow, device_id)
    if known is not None and not key:
        session.delete(known)
    elif known is not None:
        known.key = key
    elif key:
        session.add(SigningKeyRow(device_id=device_id, key=key))
