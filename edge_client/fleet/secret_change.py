"""The change of the secret by which an aggregator knows a device."""

from __future__ import annotations

import dataclasses
import logging
import secrets

from edge_client.storage.identity import IdentityStore
from fleet_protocol.client.server_client import ServerClient
from fleet_protocol.errors import RefusedError

log = logging.getLogger(__name__)

_UNKNOWN = 401


def renew_secret(client: ServerClient, store: IdentityStore) -> None:
    """Change the device's secret. Both are kept until the aggregator has the new one: power may fail in between."""
    identity = dataclasses.replace(store.load(), next_secret=secrets.token_urlsafe(32))
    store.save(identity)
    client.change_secret(identity.next_secret)
    store.save(dataclasses.replace(identity, secret=identity.next_secret, next_secret=""))
    client.show(identity.next_secret)
    log.info("this device's secret was changed")


def settle_secret(client: ServerClient, store: IdentityStore) -> None:
    """Find out which of two secrets the aggregator knows, after a change of it was interrupted."""
    identity = store.load()
    if not identity.next_secret:
        return
    client.show(identity.next_secret)
    found = identity.next_secret if _is_known(client) else identity.secret
    store.save(dataclasses.replace(identity, secret=found, next_secret=""))
    client.show(found)


def _is_known(client: ServerClient) -> bool:
    try:
        client.check_enrolment()
    except RefusedError as error:
        return error.status != _UNKNOWN  # one that waits or was revoked is known
    return True
