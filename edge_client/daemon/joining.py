"""How a device joins a fleet by an invitation, and how it leaves."""

from __future__ import annotations

import os
from pathlib import Path

from edge_client.config import Config, load_config
from edge_client.config.server_section import remove_server, write_server
from edge_client.daemon.certificates import fingerprint
from edge_client.daemon.enrolment import client_of_member, enrol, settle_secret
from edge_client.daemon.server_client import ServerClient
from edge_client.errors import CertificateError, ConfigError, RefusedError, StateError
from edge_client.storage.device_state import DeviceState, Membership
from fleet_protocol.addresses import InvitationLink, is_clear
from fleet_protocol.messages import Enrolled

# The aggregator does not know the device, or shut it out: there is nothing to leave.
_GONE = (401, 403)


def join(config_path: Path, link: InvitationLink, *, insecure_http: bool) -> Enrolled:
    """Enrol the device, pin the aggregator's authority, and write the section [server]. It may be done again.

    Args:
        config_path: configuration of the device.
        link: the invitation.
        insecure_http: whether the secret may be sent where others can read it.

    Raises:
        ConfigError: the configuration cannot be used or written, or plain HTTP is not wanted.
        StateError: the device is in another fleet, or its state is damaged.
        LinkError: the aggregator does not answer, says no, or is not the one that invited.
    """
    config = load_config(config_path)
    if is_clear(link.url) and not insecure_http:
        raise ConfigError(
            f"{link.url} is plain HTTP: others can read the invitation and this device's secret. Have the aggregator "
            "run with --tls auto and ask for a new invitation, or say --insecure-http"
        )
    if not os.access(config_path, os.W_OK) or not os.access(config_path.resolve().parent, os.W_OK):
        raise ConfigError(
            f"{config_path} cannot be written, and must name the aggregator; run this as its owner (sudo)"
        )
    state = DeviceState(config.device.state)
    authority = None if link.authority is None else _fetch_authority(link.url, link.authority)
    wanted = Membership(link.url, authority)
    present = state.membership()
    if present is not None and present.url != wanted.url and present.authority != wanted.authority:
        raise StateError(f"this device is in the fleet of {present.url}; leave it first: auricle-edge leave")
    client = ServerClient(link.url, state.identity(), authority=authority)
    try:
        enrolled = enrol(client, config, state, link.token)
    finally:
        client.close()
    state.save_membership(wanted)
    write_server(config_path, link.url, insecure_http=is_clear(link.url))
    return enrolled


def leave(config_path: Path, *, tell: bool) -> None:
    """Take the device out of its fleet: it forgets who it was there, and keeps what it learned.

    Args:
        config_path: configuration of the device.
        tell: whether the aggregator is told; it then lets the device go.

    Raises:
        ConfigError: the configuration cannot be used, or names no aggregator.
        StateError: the daemon runs, or the state is damaged.
        LinkError: the aggregator does not answer.
    """
    config = load_config(config_path)
    if config.server is None:
        raise ConfigError(f"{config_path} has no section [server]: this device is in no fleet")
    state = DeviceState(config.device.state)
    lock = state.lock("daemon")
    try:
        if tell:
            _say_goodbye(config, state)
        remove_server(config_path)
        state.leave_fleet(config.model.bundle)
    finally:
        os.close(lock)


def _say_goodbye(config: Config, state: DeviceState) -> None:
    assert config.server is not None
    client = client_of_member(config.server.url, state)
    try:
        settle_secret(client, state)
        client.leave()
    except RefusedError as error:
        if error.status not in _GONE:
            raise
    finally:
        client.close()


def _fetch_authority(url: str, sha256: str) -> str:
    """Fetch the certificate of the aggregator's authority, and check that it is the one of the invitation.

    Raises:
        CertificateError: it is another one.
    """
    client = ServerClient(url, None)
    try:
        certificate = client.authority()
    finally:
        client.close()
    if fingerprint(certificate) != sha256:
        raise CertificateError(
            f"{url} is not the aggregator that invited: the SHA-256 of its authority is {fingerprint(certificate)}, "
            f"the invitation says {sha256}. Somebody may be in between; ask whoever invited you"
        )
    return certificate
