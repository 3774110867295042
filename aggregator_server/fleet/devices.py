"""The devices of the fleet: enrolment, authentication by secret, and revocation."""

from __future__ import annotations

import re

from sqlalchemy import select

from aggregator_server.errors import (
    DeviceNotFoundError,
    DeviceRevokedError,
    DeviceTakenError,
    ForeignFeaturesError,
    InvalidRequestError,
    NotAuthenticatedError,
    SecretTakenError,
)
from aggregator_server.fleet.audit import SERVER, Actor, audit
from aggregator_server.fleet.classes import all_classes
from aggregator_server.fleet.conduct import with_conduct
from aggregator_server.fleet.public_sets import current_version
from aggregator_server.names import check_name
from aggregator_server.schemas import DeviceInfo, moment
from aggregator_server.security import hash_secret, same
from aggregator_server.store import Store
from aggregator_server.store.tables import DeviceRow
from fleet_protocol.errors import FeatureMismatchError, ProtocolError
from fleet_protocol.feature_settings import FeatureSettings
from fleet_protocol.messages import Enrolled, Enrolment

_DEVICE_ID = re.compile(r"[0-9a-f]{32}")
_SECRET = re.compile(r"[!-~]{32,256}")
_MAX_LABELS = 4_096
CLIPS_LIMIT = 2**31


def enrol(store: Store, enrolment: Enrolment, now: float, by: Actor = SERVER) -> Enrolled:
    """Take a device into the fleet. A device may enrol again, which updates what the server knows of it.

    Raises:
        InvalidRequestError: a field cannot be used.
        ForeignFeaturesError: its features are not those of the public set.
        DeviceTakenError: the identifier is enrolled with another secret.
        SecretTakenError: another device has the same secret.
        DeviceRevokedError: it was revoked.
    """
    settings = _check(enrolment)
    secret_hash = hash_secret(enrolment.secret)
    with store.writing() as session:
        public_set = current_version(session)
        if public_set is not None:
            _check_features(FeatureSettings.from_json(public_set.features), settings, enrolment.name)
        row = session.get(DeviceRow, enrolment.device_id)
        if row is None:
            if session.scalar(select(DeviceRow.device_id).where(DeviceRow.secret_hash == secret_hash)):
                raise SecretTakenError("another device enrolled with this secret; draw a new random one")
            row = DeviceRow(device_id=enrolment.device_id, secret_hash=secret_hash, enrolled_at=now, clips=0)
            session.add(row)
            audit(session, "device_enrolled", by, now, device_id=row.device_id, name=enrolment.name)
        elif not same(row.secret_hash, secret_hash):
            raise DeviceTakenError(
                f"device {enrolment.device_id} is enrolled with another secret; a new device draws a new identifier"
            )
        require_active(row)
        row.name, row.architecture = enrolment.name, enrolment.architecture
        row.features, row.features_digest = settings.to_json(), settings.digest
        row.labels, row.seen_at = list(enrolment.labels), now
        row.clips = enrolment.clips or row.clips
        return Enrolled(enrolment.device_id, all_classes(session))


def authenticate(store: Store, secret: str) -> str:
    """Return the identifier of the device that a secret belongs to.

    Raises:
        NotAuthenticatedError: no device has that secret.
        DeviceRevokedError: the device was revoked.
    """
    with store.reading() as session:
        row = session.scalar(select(DeviceRow).where(DeviceRow.secret_hash == hash_secret(secret)))
    if row is None:
        raise NotAuthenticatedError("no device is enrolled with this secret; enrol at POST /v1/devices first")
    require_active(row)
    return row.device_id


def revoke(store: Store, device_id: str, now: float, by: Actor = SERVER) -> None:
    """Shut a device out: its secret is refused, and the open round neither waits for it nor uses its upload.

    Raises:
        DeviceNotFoundError: there is no such device.
    """
    with store.writing() as session:
        row = session.get(DeviceRow, device_id)
        if row is None:
            raise DeviceNotFoundError(f"there is no device {device_id!r}; GET /v1/devices lists them")
        if row.revoked_at is None:
            row.revoked_at = now
            audit(session, "device_revoked", by, now, device_id=device_id, name=row.name)


def list_devices(store: Store) -> tuple[DeviceInfo, ...]:
    """Return every device, revoked ones too, oldest first."""
    with store.reading() as session:
        rows = session.scalars(select(DeviceRow).order_by(DeviceRow.enrolled_at, DeviceRow.device_id))
        return with_conduct(session, [_info(row) for row in rows])


def describe_device(store: Store, device_id: str) -> DeviceInfo:
    """Return one device.

    Raises:
        DeviceNotFoundError: there is no such device.
    """
    with store.reading() as session:
        row = session.get(DeviceRow, device_id)
        if row is None:
            raise DeviceNotFoundError(f"there is no device {device_id!r}; GET /v1/devices lists them")
        return with_conduct(session, [_info(row)])[0]


def _check(enrolment: Enrolment) -> FeatureSettings:
    if not _DEVICE_ID.fullmatch(enrolment.device_id):
        raise InvalidRequestError(f"device_id must be 32 lower-case hex digits, not {enrolment.device_id[:80]!r}")
    if not _SECRET.fullmatch(enrolment.secret):
        raise InvalidRequestError("secret must be 32 to 256 printable ASCII characters without blanks")
    check_name(enrolment.name, "a device's name")
    check_name(enrolment.architecture, "an architecture's name")
    if not 0 <= enrolment.clips < CLIPS_LIMIT:
        raise InvalidRequestError(f"clips must be from 0 to {CLIPS_LIMIT - 1}, not {enrolment.clips}")
    if len(enrolment.labels) > _MAX_LABELS:
        raise InvalidRequestError(f"{len(enrolment.labels)} labels are more than the {_MAX_LABELS} that are allowed")
    for label in enrolment.labels:
        check_name(label, "a label")
    try:
        check_name(str(enrolment.features.get("preset")), "the features' preset")
        return FeatureSettings.from_json(enrolment.features)
    except ProtocolError as error:
        raise InvalidRequestError(f"features: {error}") from error


def _check_features(ours: FeatureSettings, theirs: FeatureSettings, name: str) -> None:
    try:
        ours.require_same(theirs, "the public set", f"device {name!r}")
    except FeatureMismatchError as error:
        raise ForeignFeaturesError(str(error)) from error


def require_active(row: DeviceRow) -> None:
    """Check that a device was not shut out.

    Raises:
        DeviceRevokedError: it was.
    """
    if row.revoked_at is not None:
        raise DeviceRevokedError(
            f"device {row.device_id} was revoked; to take part again it needs a new identifier and secret"
        )


def _info(row: DeviceRow) -> DeviceInfo:
    revoked_at = None if row.revoked_at is None else moment(row.revoked_at)
    return DeviceInfo(
        device_id=row.device_id,
        name=row.name,
        architecture=row.architecture,
        features=row.features,
        labels=tuple(row.labels),
        clips=row.clips,
        enrolled_at=moment(row.enrolled_at),
        seen_at=moment(row.seen_at),
        revoked_at=revoked_at,
    )
