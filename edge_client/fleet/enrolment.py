"""What a device says of itself to its aggregator, and the secret by which the aggregator knows it."""

import platform
from functools import cache
from pathlib import Path

from edge_client.clips.folders import clips_of_a_round, labels_with_clips
from edge_client.config import Config
from edge_client.config.sections import ServerConfig
from edge_client.errors import ConfigError
from edge_client.model.interpreter import installed_runtime
from edge_client.storage.device_state import DeviceState
from edge_client.storage.identity import IdentityStore, Membership
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import FOLDER
from fleet_protocol.client.server_client import ServerClient
from fleet_protocol.ground.command_line import version
from fleet_protocol.limits import LABELS, VERSION_LENGTH
from fleet_protocol.messages.rest import Enrolled, Enrolment, Versions
from fleet_protocol.numbers.tensors import digest


@cache
def versions(bundle: Path) -> Versions:
    """Return what this process runs. An upgrade changes files under it, and counts when the process starts anew."""
    return Versions(
        program=_fit(version()),
        bundle=_fit(bundle.stem) if bundle.parent == FOLDER else "",
        bundle_sha256=digest(bundle.read_bytes()),
        runtime=_fit(installed_runtime()),
        python=_fit(platform.python_version()),
        system=_fit(f"{_system()}, {platform.machine()}"),
    )


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:  # a system without that file
        return platform.system()


def _fit(text: str) -> str:
    """Return a text as the aggregator takes it: printable, without blanks around it, not long."""
    return "".join(character for character in text if character.isprintable())[:VERSION_LENGTH].strip()


def client_of_member(url: str, state: DeviceState) -> ServerClient:
    """Return what speaks to the aggregator as this device, and trusts what it pinned. Raises LinkError."""
    membership = state.membership.load()
    authority = None if membership is None else membership.authority
    return ServerClient(url, state.identity.load(), authority=authority)


def token_of(server: ServerConfig, membership: Membership | None) -> str:
    """Return the token to enrol with; "" for the device's own secret. Raises ConfigError if it has neither."""
    if membership is None and not server.enrol_token:
        raise ConfigError(
            "this device has not joined the fleet of [server] yet: ask for an invitation (`auricle-aggregator invite`) "
            "and run `auricle-edge join LINK`, or set enrol_token (`auricle-aggregator tokens` prints it)"
        )
    return server.enrol_token if membership is None else ""


class Enroller:
    """Says who this device is, and says it again where something of that changed."""

    def __init__(self, client: ServerClient, config: Config, store: IdentityStore) -> None:
        self._client, self._config, self._store = client, config, store
        self._said: Enrolment | None = None

    def enrol(self, token: str) -> Enrolled:
        """Enrol by a token, "" for the device's own secret."""
        message = describe(self._config, self._store)
        enrolled = self._client.enrol(message, token or message.secret)
        self._said = message
        return enrolled

    def report(self, trouble: str) -> None:
        """Report what changed: labels, where they are shared, clips, and what went wrong (:func:`trouble_of`)."""
        message = describe(self._config, self._store, trouble)
        if message != self._said:
            self._client.enrol(message, message.secret)
            self._said = message


def describe(config: Config, store: IdentityStore, trouble: str = "") -> Enrolment:
    """Return what the device says of itself. ``trouble``: see :func:`trouble_of`."""
    manifest, identity = read_bundle(config.bundle).manifest, store.load()
    return Enrolment(
        device_id=identity.device_id,
        secret=identity.secret,
        name=config.device.name,
        architecture=manifest.architecture,
        features=manifest.features,
        labels=labels_with_clips(config.clips_folder)[:LABELS] if config.device.share_names else (),
        clips=clips_of_a_round(config.clips_folder, config.recordings.per_round[1]),
        network=manifest.network,
        trouble=trouble,
        versions=versions(config.bundle),
        signing_key=store.public_signing_key(),
    )


def trouble_of(config: Config) -> str:
    """Say, to the operator, why a training failed; without any word of the owner's."""
    folder = config.recordings.folder
    if folder is not None and not folder.is_dir():
        return "its folder of recordings does not exist ([recordings] folder of its configuration)"
    if not labels_with_clips(config.clips_folder):
        return "it has no clips to learn from: its owner has taught it nothing yet"
    return "its training failed; its log says why"
