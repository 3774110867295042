"""How a device joins a fleet by an invitation, and how it leaves."""

import logging
import os
from contextlib import closing
from pathlib import Path

from edge_client.audio.recordings import Recordings
from edge_client.config import Config, load_config
from edge_client.config.written import Answers, remove_server, write_new, write_server
from edge_client.errors import ConfigError, RecordingError, StateError
from edge_client.fleet.enrolment import Enroller, client_of_member
from edge_client.storage.blob_cache import BlobCache
from edge_client.storage.device_state import DeviceState
from edge_client.storage.identity import Membership
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.feature_settings import PRESETS
from fleet_protocol.client.certificates import fingerprint
from fleet_protocol.client.identity import Identity
from fleet_protocol.client.server_client import ServerClient
from fleet_protocol.errors import CertificateError, RefusedError, UnreachableError
from fleet_protocol.ground.addresses import is_clear
from fleet_protocol.messages.invitation_link import InvitationLink
from fleet_protocol.messages.rest import Enrolled

log = logging.getLogger(__name__)

# The aggregator does not know the device, or shut it out: there is nothing to leave.
_GONE = (401, 403)
# It has no public set.
_NONE = 404


def join(config_path: Path, link: InvitationLink, *, insecure_http: bool) -> Enrolled:
    """Enrol the device, pin the aggregator's authority, and write the section [server]. It may be done again.

    Raises ConfigError if the configuration cannot be used or written, or plain HTTP is not wanted; StateError if the
    device is in another fleet; LinkError if the aggregator does not answer, says no, or is not the one that invited.
    """
    config = load_config(config_path)
    _require_private(link, insecure_http=insecure_http)
    if not os.access(config_path, os.W_OK) or not os.access(config_path.resolve().parent, os.W_OK):
        raise ConfigError(
            f"{config_path} cannot be written, and must name the aggregator; run this as its owner (sudo)"
        )
    state = DeviceState(config.device.state)
    present = state.membership.load()
    known = set() if present is None else {present.url}
    if config.server is not None:
        known.add(config.server.url)
    authority = _fetch_authority(link)
    # A server that moved still has its own authority; of one for which public ones vouch, nothing shows that it moved.
    moved = authority is not None and present is not None and present.authority == authority
    if present is not None and not moved and link.url not in known:
        raise StateError(f"this device is in the fleet of {present.url}; leave it first: auricle-edge leave")
    with closing(ServerClient(link.url, state.identity.load(), authority=authority)) as client:
        enrolled = Enroller(client, config, state.identity).enrol(link.token)
        if not enrolled.waiting:
            _fetch_public_set(client, state.blobs)
    state.membership.save(Membership(link.url, authority))
    write_server(config_path, link.url, insecure_http=is_clear(link.url))
    return enrolled


def set_up(
    config_path: Path,
    link: InvitationLink,
    recordings: Path,
    *,
    name: str,
    insecure_http: bool,
    played: Path | None = None,
) -> None:
    """Write the configuration of a new device that learns from recordings, folder included; its bundle is the fleet's.

    ``played``: recordings that it listens to in place of a microphone; None: it does not listen.

    Raises ConfigError if the file exists already and names other recordings, or plain HTTP is not wanted;
    RecordingError if there are no recordings; LinkError as :func:`join`; BundleError if what it sent is no bundle.
    """
    _require_private(link, insecure_http=insecure_http)
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
    authority = _fetch_authority(link)
    with closing(ServerClient(link.url, Identity("", link.token), authority=authority)) as client:
        client.bundle(bundle)
    read_bundle(bundle)
    own = recordings.resolve()
    answers = Answers(name=name, state="state", bundle=bundle.name, microphone=None, played=played, recordings=own)
    write_new(config_path, answers, replace=False)


def _require_private(link: InvitationLink, *, insecure_http: bool) -> None:
    if is_clear(link.url) and not insecure_http:
        raise ConfigError(
            f"{link.url} is plain HTTP: others can read the invitation and this device's secret. Have the aggregator "
            "run with --tls auto and ask for a new invitation, or say --insecure-http"
        )


def _fetch_authority(link: InvitationLink) -> str | None:
    """Fetch the certificate of the aggregator's authority, and check that it is the one of the invitation, if any."""
    # An invitation names none where public ones vouch for the aggregator, or nobody.
    if link.authority is None:
        return None
    with closing(ServerClient(link.url, None)) as client:
        certificate = client.authority()
    if fingerprint(certificate) != link.authority:
        raise CertificateError(
            f"{link.url} is not the aggregator that invited: the SHA-256 of its authority is {fingerprint(certificate)}"
            f", the invitation says {link.authority}. Somebody may be in between; ask whoever invited you"
        )
    return certificate


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
    """Leave the fleet, and keep what was learned. Raises ConfigError without [server], StateError if a daemon runs."""
    config = load_config(config_path)
    if config.server is None:
        raise ConfigError(f"{config_path} has no section [server]: this device is in no fleet")
    state = DeviceState(config.device.state)
    lock = state.lock("daemon")
    try:
        if notify:
            _say_goodbye(config, state)
        remove_server(config_path)
        state.leave_fleet(config.bundle)
    finally:
        os.close(lock)


def _say_goodbye(config: Config, state: DeviceState) -> None:
    assert config.server is not None
    with closing(client_of_member(config.server.url, state)) as client:
        try:
            client.leave()
        except UnreachableError as error:
            raise UnreachableError(f"{error}. To leave without telling it: auricle-edge leave --forget") from error
        except RefusedError as error:
            if error.status not in _GONE:
                raise
