"""One change of several devices at once: of all or, where it is refused for one, of none. The audit names each."""

from __future__ import annotations

from collections.abc import Sequence

from aggregator_server.errors import InvalidRequestError
from aggregator_server.fleet.audit import Actor
from aggregator_server.fleet.conduct import quarantine_within, release_within
from aggregator_server.fleet.devices import admit_within, revoke_within
from aggregator_server.store import Tables


def change_devices(tables: Tables, device_ids: Sequence[str], action: str, reason: str, now: float, by: Actor) -> None:
    """Admit, quarantine, release or revoke devices in one transaction.

    Args:
        tables: the fleet's.
        device_ids: the devices.
        action: ``admit``, ``quarantine``, ``release`` or ``revoke``.
        reason: of a quarantine.
        now: seconds since 1970.
        by: who does it.

    Raises:
        DeviceNotFoundError, DeviceRevokedError, ForeignFeaturesError: as for one device.
        InvalidRequestError: there is no such action, or the reason of a quarantine cannot be used.
    """
    with tables.writing() as session:
        for device_id in device_ids:
            if action == "admit":
                admit_within(session, device_id, now, by)
            elif action == "quarantine":
                quarantine_within(session, device_id, reason, now, by)
            elif action == "release":
                release_within(session, device_id, now, by)
            elif action == "revoke":
                revoke_within(session, device_id, now, by)
            else:
                raise InvalidRequestError(f"action must be admit, quarantine, release or revoke, not {action[:80]!r}")
