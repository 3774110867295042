"""How a device joins a fleet by an invitation, and how it leaves."""

from __future__ import annotations

import os
from pathlib import Path

from edge_client.audio.recordings import Recordings
from edge_client.config import Config, load_config
from edge_client.config.new_file import Answers, write_new
from edge_client.config.server_section import remove_server, write_server
from edge_client.errors import CertificateError, ConfigError, RecordingError, RefusedError, StateError
from edge_client.fleet.certificates import fingerprint
from edge_client.fleet.enrolment import client_of_member, enrol, settle_secret
from edge_client.fleet.server_client import ServerClient
from edge_client.storage.blob_cache import BlobCache
from edge_client.storage.device_state import DeviceState
from edge_client.storage.identity import Identity
from edge_client.storage.membership import Membership
from fleet_protocol.addresses import InvitationLink, is_clear
from fleet_protocol.bundle import read_bundle
from fleet_protocol.feature_settings import PRESETS
from fleet_protocol.messages import Enrolled

# The aggregator does not know the device, or shut it out: there is nothing to leave.
_GONE = (401, 403)
# It has no public set.
_NONE = 404


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
    _require_private(link.url, insecure_http=insecure_http)
    if not os.access(config_path, os.W_OK) or not os.access(config_path.resolve().parent, os.W_OK):
        raise ConfigError(
            f"{config_path} cannot be written, and must name the aggregator; run this as its owner (sudo)"
        )
    state = DeviceState(config.device.state)
    authority = None if link.authority is None else _fetch_authority(link.url, link.authority)
    wanted = Membership(link.url, authority)
    present = state.membership.load()
    if present is not None and present.url != wanted.url and present.authority != wanted.authority:
        raise StateError(f"this device is in the fleet of {present.url}; leave it first: auricle-edge leave")
    client = ServerClient(link.url, state.identity.load(), authority=authority)
    try:
        _, enrolled = enrol(client, config, state.identity, link.token)
        if not enrolled.waiting:
            _fetch_public_set(client, state.blobs)
    finally:
        client.close()
    state.membership.save(wanted)
    write_server(config_path, link.url, insecure_http=is_clear(link.url))
    return enrolled


def set_up(config_path: Path, link: InvitationLink, recordings: Path, *, name: str, insecure_http: bool) -> None:
    """Write the configuration of a new device that learns from recordings; its bundle is the fleet's.

    Args:
        config_path: configuration to write; its folder is made where it does not exist.
        link: the invitation.
        recordings: folder of the device's clips.
        name: of the device, for people.
        insecure_http: whether the invitation may be sent where others can read it.

    Raises:
        ConfigError: the file exists already and names other recordings, or plain HTTP is not wanted.
        RecordingError: there are no recordings.
        LinkError: the aggregator does not answer, has no bundle, or is not the one that invited.
        BundleError: what it sent is no bundle.
    """
    _require_private(link.url, insecure_http=insecure_http)
    if not Recordings(recordings, PRESETS["gudur"]).labels():
        raise RecordingError(f"no recordings in {recordings}; it must hold clips as LABEL/*.wav")
    if config_path.exists():
        found = load_config(config_path).recordings.folder
        if found is None or found.resolve() != recordings.resolve():
            raise ConfigError(
                f"{config_path} exists and names other recordings ({found}); join without --recordings, or name "
                "another file with --config"
            )
        return
    config_path.parent.mkdir(parents=True, exist_ok=True)
    bundle = config_path.with_name("fleet.auricle")
    authority = None if link.authority is None else _fetch_authority(link.url, link.authority)
    client = ServerClient(link.url, Identity("", link.token), authority=authority)
    try:
        client.bundle(bundle)
    finally:
        client.close()
    read_bundle(bundle)
    answers = Answers(name=name, state="state", bundle=bundle.name, microphone=None, recordings=recordings.resolve())
    write_new(config_path, answers, replace=False)


def _require_private(url: str, *, insecure_http: bool) -> None:
    """Check that plain HTTP stays on this machine, or is wanted.

    Raises:
        ConfigError: it does not.
    """
    if is_clear(url) and not insecure_http:
        raise ConfigError(
            f"{url} is plain HTTP: others can read the invitation and this device's secret. Have the aggregator "
            "run with --tls auto and ask for a new invitation, or say --insecure-http"
        )


def _fetch_public_set(client: ServerClient, blobs: BlobCache) -> None:
    """Fetch the public set now, so that the first round need not; a fleet may have none yet."""
    try:
        sha256 = client.public_set()
    except RefusedError as error:
        if error.status != _NONE:
            raise
        return
    if not blobs.has(sha256):
        client.fetch(sha256, blobs.path(sha256), client.bounds.public_set_bytes, lambda: None)


def leave(config_path: Path, *, notify: bool) -> None:
    """Take the device out of its fleet: it forgets who it was there, and keeps what it learned.

    Args:
        config_path: configuration of the device.
        notify: whether the aggregator is notified; it then lets the device go.

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
        if notify:
            _say_goodbye(config, state)
        remove_server(config_path)
        state.leave_fleet(config.model.bundle)
    finally:
        os.close(lock)


def _say_goodbye(config: Config, state: DeviceState) -> None:
    assert config.server is not None
    client = client_of_member(config.server.url, state)
    try:
        settle_secret(client, state.identity)
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
