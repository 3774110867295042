"""Who a region is to its upper server: the row that says so, and what speaks to that server by it."""

import platform
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from aggregator_server.errors import LeaseLostError, LeftRegionError, ModelNotFoundError
from aggregator_server.fleet.region import read_region
from aggregator_server.fleet.shared_models import current_model, read_manifest
from aggregator_server.limits import CLIPS
from aggregator_server.store import Store
from aggregator_server.store.tables import IS_ACTIVE, DeviceRow, RegionRow
from fleet_protocol.bundle import Manifest
from fleet_protocol.client.addresses import own_order
from fleet_protocol.client.identity import Identity
from fleet_protocol.client.server_client import ServerClient
from fleet_protocol.command_line import version
from fleet_protocol.limits import VERSION_LENGTH
from fleet_protocol.messages import Enrolment, Versions

PROGRAM = "auricle-aggregator"
_TROUBLE_LENGTH = 200


Writing = Callable[[], AbstractContextManager[tuple[Session, RegionRow]]]


def writing(store: Store, device_id: str) -> Writing:
    """Return what opens transactions of the region's step: of the server that moves rounds, while it is this region.

    Each yields the session and the row. It raises LeaseLostError where another server moves rounds, and LeftRegionError
    where the fleet left.
    """

    @contextmanager
    def opened() -> Iterator[tuple[Session, RegionRow]]:
        with store.leading() as number:
            if number is None:
                raise LeaseLostError("another server moves the rounds now")
            with store.writing() as session:
                region = read_region(session)
                if region is None or region.device_id != device_id:
                    raise LeftRegionError("this fleet left its upper one")
                yield session, region

    return opened


class RowKeeper:
    """Keeps the region's identity in its row."""

    def __init__(self, opened: Writing) -> None:
        self._opened = opened

    def load(self) -> Identity:
        """Return it."""
        with self._opened() as (_, region):
            return identity_of(region)

    def save(self, identity: Identity) -> None:
        """Replace its secrets."""
        with self._opened() as (_, region):
            region.secret, region.next_secret = identity.secret, identity.next_secret


def identity_of(region: RegionRow) -> Identity:
    """Return who a region is to its upper server."""
    return Identity(region.device_id, region.secret, region.next_secret)


def client_of(region: RegionRow) -> ServerClient:
    """Return what speaks to the upper server as this region. Raises LinkError: an address or the authority is none."""
    first, *more = own_order(region.urls, region.device_id)
    return ServerClient(first, identity_of(region), authority=region.authority, more=more, program=PROGRAM)


def describe(region: RegionRow, manifest: Manifest, clips: int) -> Enrolment:
    """Return what a region says of itself to its upper server.

    Args:
        manifest: of the shared model's bundle: the region takes part with its network.
        clips: of all its devices together.
    """
    return Enrolment(
        device_id=region.device_id,
        secret=region.secret,
        name=region.name,
        architecture=manifest.architecture,
        features=manifest.features,
        clips=min(CLIPS - 1, clips),
        network=manifest.network,
        trouble=(region.trouble or "")[:_TROUBLE_LENGTH].strip(),
        versions=Versions(
            program=version()[:VERSION_LENGTH],
            python=platform.python_version(),
            system=f"aggregator, {platform.machine()}"[:VERSION_LENGTH],
        ),
    )


def describe_now(session: Session, store: Store, region: RegionRow) -> Enrolment:
    """Return the same, by the fleet's present model and devices.

    Raises:
        ModelNotFoundError: the fleet has no model.
        BlobError: the model's blob is missing or damaged.
    """
    model = current_model(session)
    if model is None:
        raise ModelNotFoundError("this region has no model; join the upper fleet again")
    manifest = read_manifest(store, model.sha256)
    clips = session.scalar(select(func.sum(DeviceRow.clips)).where(IS_ACTIVE)) or 0
    return describe(region, manifest, int(clips))
