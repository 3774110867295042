"""Changes of devices by people: of all that are named or, where one is refused, of none. The audit names each."""

from collections.abc import Sequence

from aggregator_server.errors import InvalidRequestError
from aggregator_server.fleet.audit import SERVER, Actor
from aggregator_server.fleet.devices import admit, ask_for_new_secret, revoke
from aggregator_server.fleet.reputation import quarantine, release
from aggregator_server.store import Tables

_CHANGES = {"admit": admit, "new-secret": ask_for_new_secret, "release": release, "revoke": revoke}


def change_devices(
    tables: Tables, device_ids: Sequence[str], action: str, now: float, by: Actor = SERVER, reason: str = ""
) -> None:
    """Admit, quarantine, release or revoke devices, or ask them for new secrets, in one transaction.

    Args:
        action: ``admit``, ``new-secret``, ``quarantine``, ``release`` or ``revoke``.

    Raises:
        RefusedError: there is no such device.
        DeviceRevokedError: a device to admit, or to ask for a secret, was revoked, or left.
        RefusedError: the features of a device to admit are not those of the public set.
        InvalidRequestError: there is no such action, or the reason of a quarantine cannot be used.
    """
    if action not in (*_CHANGES, "quarantine"):
        raise InvalidRequestError(f"action must be one of {', '.join(_CHANGES)} and quarantine, not {action[:80]!r}")
    with tables.writing() as session:
        for device_id in device_ids:
            if action == "quarantine":
                quarantine(session, device_id, reason, now, by)
            else:
                _CHANGES[action](session, device_id, now, by)
