"""What a device says of itself to its aggregator, and the secret by which the aggregator knows it."""

from __future__ import annotations

import dataclasses
import logging
import secrets

from edge_client.clips.files import clips_of_a_round
from edge_client.config import Config
from edge_client.daemon.server_client import ServerClient
from edge_client.errors import RefusedError
from edge_client.storage.device_state import DeviceState
from fleet_protocol.messages import Enrolled, Enrolment

log = logging.getLogger(__name__)

_UNKNOWN = 401


def client_of_member(url: str, state: DeviceState) -> ServerClient:
    """Return what speaks to the aggregator at an address as this device, and trusts what it pinned when it joined.

    Raises:
        LinkError: the address cannot be one, or the authority none.
        StateError: the state is damaged.
    """
    membership = state.membership()
    authority = None if membership is None else membership.authority
    return ServerClient(url, state.identity(), authority=authority)


def enrol(client: ServerClient, config: Config, state: DeviceState, token: str) -> Enrolled:
    """Say who this device is; saying it again changes nothing.

    Args:
        client: speaks to the aggregator.
        config: of the device.
        state: of the device.
        token: an invitation or the enrolment token; "": the device is enrolled, and shows its own secret.

    Raises:
        LinkError: the aggregator does not answer, or says no.
        StateError: the state is damaged.
    """
    settle_secret(client, state)
    identity = state.identity()
    saved = state.load_model(config.model.bundle)
    manifest = saved.bundle.manifest
    message = Enrolment(
        device_id=identity.device_id,
        secret=identity.secret,
        name=config.device.name,
        architecture=manifest.architecture,
        features=manifest.features,
        labels=saved.progress.label_map.labels if config.device.share_names else (),
        clips=clips_of_a_round(config.clips_folder, config.recordings.per_round[1]),
        network=manifest.network,
    )
    return client.enrol(message, token or identity.secret)


def renew_secret(client: ServerClient, state: DeviceState) -> None:
    """Change the device's secret. Both are kept until the aggregator has the new one: power may fail in between.

    Raises:
        LinkError: the aggregator does not answer, or says no.
    """
    identity = dataclasses.replace(state.identity(), next_secret=secrets.token_urlsafe(32))
    state.save_identity(identity)
    client.change_secret(identity.next_secret)
    state.save_identity(dataclasses.replace(identity, secret=identity.next_secret, next_secret=""))
    client.show(identity.next_secret)
    log.info("this device's secret was changed")


def settle_secret(client: ServerClient, state: DeviceState) -> None:
    """Find out which of two secrets the aggregator knows, after a change of it was interrupted.

    Raises:
        LinkError: the aggregator does not answer, or says no.
    """
    identity = state.identity()
    if not identity.next_secret:
        return
    client.show(identity.next_secret)
    found = identity.next_secret if _is_known(client) else identity.secret
    state.save_identity(dataclasses.replace(identity, secret=found, next_secret=""))
    client.show(found)


def _is_known(client: ServerClient) -> bool:
    try:
        client.look_at_oneself()
    except RefusedError as error:
        return error.status != _UNKNOWN  # one that waits or was revoked is known
    return True
