"""The versions of the public set: published once by an administrator, grown by rounds that discover classes."""

from __future__ import annotations

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from aggregator_server.aggregation.contract import UploadTerms
from aggregator_server.errors import (
    BlobNotFoundError,
    FleetFeaturesError,
    InvalidRequestError,
    MalformedPublicSetError,
    PublicSetInUseError,
    PublicSetNotFoundError,
    RoundOpenError,
)
from aggregator_server.fleet.classes import all_classes
from aggregator_server.names import check_name
from aggregator_server.schemas import PublicSetInfo
from aggregator_server.store import Store
from aggregator_server.store.blobs import Incoming
from aggregator_server.store.tables import BlobRow, ClassRow, DeviceRow, PublicSetRow, RoundRow
from fleet_protocol.errors import ProtocolError
from fleet_protocol.feature_settings import FeatureSettings
from fleet_protocol.public_set import PublicSet

_SERVED = ("public_set", "consensus", "model", "weights")


def current_version(session: Session) -> PublicSetRow | None:
    """Return the newest version of the public set."""
    return session.scalar(select(PublicSetRow).order_by(PublicSetRow.version.desc()).limit(1))


def current_consensus(session: Session) -> str | None:
    """Return the digest of the fleet's scores on the newest public set; None before the first round has ended."""
    done = select(RoundRow.result_consensus).where(RoundRow.state == "done")
    return session.scalar(done.order_by(RoundRow.round_id.desc()).limit(1))


def upload_terms(session: Session) -> UploadTerms:
    """Return what an upload for the open round must fit; the public set does not change while a round is open."""
    row = _required(session)
    class_ids = tuple(info.class_id for info in all_classes(session))
    return UploadTerms(row.sha256, row.samples, class_ids, FeatureSettings.from_json(row.features))


def describe_public_set(store: Store) -> PublicSetInfo:
    """Return the current public set without its arrays.

    Raises:
        PublicSetNotFoundError: none has been published.
    """
    with store.reading() as session:
        return _info(session)


def publish(store: Store, incoming: Incoming) -> PublicSetInfo:
    """Make a public set the fleet's. Publishing the current one again changes nothing.

    It can be replaced as long as the fleet has no consensus on it and no round is open.

    Raises:
        MalformedPublicSetError: the bytes are no public set, or one with unusable class names.
        RoundOpenError: a round is open.
        PublicSetInUseError: the fleet has a consensus on the current one.
        FleetFeaturesError: enrolled devices compute their features in another way.
    """
    public_set = _read(incoming.content())
    sha256 = incoming.keep()
    with store.writing() as session:
        current = current_version(session)
        if current is None or current.sha256 != sha256:
            _check_replaceable(session, public_set)
            _replace(session, sha256, public_set)
        return _info(session)


def require_served(store: Store, sha256: str) -> None:
    """Check that a blob is one that devices may fetch: a public set, a consensus, a model or its weights.

    Raises:
        BlobNotFoundError: it is not.
    """
    with store.reading() as session:
        row = session.get(BlobRow, sha256)
    if row is None or row.kind not in _SERVED:
        raise BlobNotFoundError(
            f"no public set, consensus, model or weights has the digest {sha256!r}; ask /v1/work for the current ones"
        )


def _required(session: Session) -> PublicSetRow:
    row = current_version(session)
    if row is None:
        raise PublicSetNotFoundError(
            "no public set yet; an administrator publishes one with `auricle-aggregator publish`"
        )
    return row


def _info(session: Session) -> PublicSetInfo:
    row = _required(session)
    classes, consensus = all_classes(session), current_consensus(session)
    return PublicSetInfo(row.version, row.sha256, row.samples, row.synthetic, row.features, classes, consensus)


def _read(data: bytes) -> PublicSet:
    try:
        public_set = PublicSet.unpack(data)
        check_name(public_set.settings.preset, "the features' preset")
        for info in public_set.classes:
            check_name(info.class_id, "a class's identifier", length=64)
            check_name(info.name, "a class's name")
    except (ProtocolError, InvalidRequestError) as error:
        raise MalformedPublicSetError(f"the body cannot be used as a public set: {error}") from error
    names = [info.name.casefold() for info in public_set.classes]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise MalformedPublicSetError(f"two classes of the public set are called {twice[0]!r}; names must differ")
    return public_set


def _check_replaceable(session: Session, public_set: PublicSet) -> None:
    round_id = session.scalar(select(RoundRow.round_id).where(RoundRow.state == "open"))
    if round_id is not None:
        raise RoundOpenError(f"round {round_id} is open; let it end or cancel it before publishing another public set")
    if session.scalar(select(RoundRow.round_id).where(RoundRow.state == "done").limit(1)) is not None:
        raise PublicSetInUseError(
            "the fleet has a consensus or weights by the current public set's classes; another one needs a data "
            "folder of its own"
        )
    settings = public_set.settings
    foreign = session.scalars(
        select(DeviceRow.name)
        .where(DeviceRow.revoked_at.is_(None), DeviceRow.features_digest != settings.digest)
        .order_by(DeviceRow.device_id)
        .limit(5)
    ).all()
    if foreign:
        raise FleetFeaturesError(
            f"the public set's features are {settings.describe()}; enrolled devices use others: {', '.join(foreign)}. "
            "Publish a set with their features, or revoke those devices."
        )


def _replace(session: Session, sha256: str, public_set: PublicSet) -> None:
    session.merge(BlobRow(sha256=sha256, kind="public_set"))
    session.flush()
    session.execute(delete(ClassRow))
    session.add_all(
        ClassRow(class_id=info.class_id, name=info.name, folded=info.name.casefold(), position=position)
        for position, info in enumerate(public_set.classes)
    )
    session.add(public_set_row(sha256, public_set, None))
    session.flush()


def public_set_row(sha256: str, public_set: PublicSet, round_id: int | None) -> PublicSetRow:
    """Return the row of a new version."""
    return PublicSetRow(
        sha256=sha256,
        samples=len(public_set.labels),
        synthetic=int(public_set.synthetic.sum()),
        features=public_set.settings.to_json(),
        round_id=round_id,
    )
