"""Changes of devices by people: of all that are named or, where one is refused, of none. The audit names each."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from aggregator_server.errors import InvalidRequestError
from aggregator_server.fleet.audit import SERVER, Actor, audit
from aggregator_server.fleet.class_backing import let_go
from aggregator_server.fleet.devices import OTHER_FRONT_END, end_membership, require_device, require_not_revoked
from aggregator_server.fleet.publications import require_fleets_features
from aggregator_server.fleet.reputation import put_in_quarantine, reputation_of
from aggregator_server.names import check_name
from aggregator_server.store.store import Tables
from aggregator_server.store.tables import DeviceRow
from fleet_protocol.bundle.feature_settings import FeatureSettings

ACTIONS = ("admit", "quarantine", "release", "revoke")


def change_devices(
    tables: Tables, device_ids: Sequence[str], action: str, now: float, by: Actor = SERVER, reason: str = ""
) -> None:
    """Admit, quarantine, release or revoke devices, in one transaction.

    Raises RefusedError: there is no such device, or one to admit has other features than the public set.
    DeviceRevokedError: one to admit was revoked, or left. InvalidRequestError: the action or the reason cannot be used.
    """
    if action not in ACTIONS:
        raise InvalidRequestError(f"action must be one of {', '.join(ACTIONS)}, not {action[:80]!r}")
    if action == "quarantine":
        check_name(reason, "a reason")
    with tables.writing() as session:
        for device_id in device_ids:
            row = require_device(session, device_id)
            if action == "revoke":
                end_membership(session, row, now, by, "device_revoked")
            elif action == "quarantine":
                conduct = reputation_of(session, device_id)
                if conduct.quarantined_at is None:  # else it stays, with its first reason
                    put_in_quarantine(session, conduct, reason, now, by)
            elif action == "release":
                _release(session, device_id, now, by)
            else:
                _admit(session, row, now, by)
        if action == "revoke":
            session.flush()
            let_go(session, device_ids)


def _admit(session: Session, row: DeviceRow, now: float, by: Actor) -> None:
    require_not_revoked(row)
    settings = FeatureSettings.from_json(row.features)
    require_fleets_features(session, settings, f"device {row.name!r}", OTHER_FRONT_END)
    if row.waiting:
        row.waiting = False
        audit(session, "device_admitted", by, now, device_id=row.device_id, name=row.name)


def _release(session: Session, device_id: str, now: float, by: Actor) -> None:
    """Let a device's uploads count again, and forget the suspicion against it; the counts of its uploads stay."""
    row = reputation_of(session, device_id)
    if row.quarantined_at is not None:
        row.quarantined_at, row.reason, row.suspicion = None, None, 0
        audit(session, "device_released", by, now, device_id=device_id)
