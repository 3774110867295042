"""Publishing what all rounds work on, a public set and a shared model: allowed only while no round is open."""

import time

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from aggregator_server.errors import InvalidRequestError, RefusedError
from aggregator_server.fleet.audit import SERVER, Actor, audit
from aggregator_server.fleet.classes import all_classes
from aggregator_server.fleet.publications import (
    check_capacity,
    current_model,
    current_version,
    public_set_row,
    published_model,
    published_set,
    require_fleets_features,
)
from aggregator_server.names import check_name
from aggregator_server.rounds.queries import newest_done, newest_with_model, require_no_open_round
from aggregator_server.schemas import ModelInfo, PublicSetInfo, reply
from aggregator_server.store.blobs import Incoming
from aggregator_server.store.store import Store
from aggregator_server.store.tables import ACTIVE, IS_ACTIVE, BlobRow, ClassRow, DeviceRow, ModelRow
from fleet_protocol.bundle.bundle_file import Manifest, unpack_bundle
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.errors import ProtocolError
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.numbers.tensors import Buffer


def publish_public_set(store: Store, incoming: Incoming, by: Actor = SERVER) -> PublicSetInfo:
    """Make a public set the fleet's. Publishing the current one again changes nothing.

    It can be replaced as long as the fleet has no result on it and no round is open. Raises RefusedError: it cannot
    now, the bytes are no public set with usable names, or enrolled devices compute their features in another way.
    """
    public_set = _read_public_set(incoming.content())
    sha256 = incoming.keep()
    with store.writing() as session:
        current = current_version(session)
        if current is None or current.sha256 != sha256:
            require_no_open_round(session, "; let it end or cancel it before publishing another public set")
            if newest_done(session) is not None:
                raise RefusedError(
                    "public_set_in_use",
                    "the fleet has a consensus or weights by the current public set's classes; another one needs a "
                    "data folder of its own",
                )
            _require_devices_features(session, public_set.settings)
            _note_blob(session, sha256, "public_set")
            session.execute(delete(ClassRow))
            session.add_all(
                ClassRow(class_id=info.class_id, name=info.name, folded=info.name.casefold(), position=n, state=ACTIVE)
                for n, info in enumerate(public_set.classes)
            )
            session.add(public_set_row(sha256, public_set, None))
            session.flush()
            audit(session, "public_set_published", by, time.time(), sha256=sha256)
    return describe_public_set(store)


def describe_public_set(store: Store) -> PublicSetInfo:
    """Return the current public set without its arrays. Raises RefusedError: none has been published."""
    with store.reading() as session:
        row, classes, newest = published_set(session), all_classes(session), newest_done(session)
        return reply(PublicSetInfo, row, classes=classes, consensus=None if newest is None else newest.result_consensus)


def publish_model(store: Store, incoming: Incoming, by: Actor = SERVER) -> ModelInfo:
    """Make a bundle the fleet's shared model. Publishing the current one again changes nothing.

    Raises RefusedError: a round is open, or the bytes are no bundle, have other features, or a head with too few slots.
    """
    manifest = _read_manifest(incoming.content())
    sha256, network = incoming.keep(), manifest.architecture
    with store.writing() as session:
        current = current_model(session)
        if current is None or current.sha256 != sha256:
            require_no_open_round(session, "; let it end or cancel it before publishing another model")
            require_fleets_features(session, manifest.feature_settings, "the model")
            check_capacity(session, manifest.slots)
            _note_blob(session, sha256, "model")
            numbers = {"capacity": manifest.slots, "parameters": manifest.parameters}
            session.add(ModelRow(sha256=sha256, architecture=network, network=manifest.network, **numbers))
            session.flush()
            audit(session, "model_published", by, time.time(), sha256=sha256, architecture=network)
    return describe_model(store)


def describe_model(store: Store) -> ModelInfo:
    """Return the shared model without its arrays. Raises RefusedError: none has been published."""
    with store.reading() as session:
        model = published_model(session)
        newest = newest_with_model(session, model.version)
        return reply(ModelInfo, model, weights=None if newest is None else newest.result_weights)


def _note_blob(session: Session, sha256: str, kind: str) -> None:
    session.merge(BlobRow(sha256=sha256, kind=kind))
    session.flush()


def _read_public_set(data: Buffer) -> PublicSet:
    try:
        public_set = PublicSet.unpack(data)
        check_name(public_set.settings.preset, "the features' preset")
        for info in public_set.classes:
            check_name(info.class_id, "a class's identifier", length=64)
            check_name(info.name, "a class's name")
    except (ProtocolError, InvalidRequestError) as error:
        raise RefusedError("malformed_public_set", f"the body cannot be used as a public set: {error}") from error
    names = [info.name.casefold() for info in public_set.classes]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise RefusedError(
            "malformed_public_set", f"two classes of the public set are called {twice[0]!r}; names must differ"
        )
    return public_set


def _require_devices_features(session: Session, settings: FeatureSettings) -> None:
    foreign = session.scalars(
        select(DeviceRow.name)
        .where(IS_ACTIVE, DeviceRow.features_digest != settings.digest)
        .order_by(DeviceRow.device_id)
        .limit(5)
    ).all()
    if foreign:
        raise RefusedError(
            "fleet_features",
            f"the public set's features are {settings.describe()}; enrolled devices use others: {', '.join(foreign)}. "
            "Publish a set with their features, or revoke those devices.",
        )


def _read_manifest(data: Buffer) -> Manifest:
    try:
        manifest = unpack_bundle(data, "the body").manifest
        check_name(manifest.architecture, "the architecture's name")
    except (ProtocolError, InvalidRequestError) as error:
        raise RefusedError("malformed_model", f"the body cannot be used as a model: {error}") from error
    return manifest
