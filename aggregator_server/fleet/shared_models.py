"""The fleet's shared model: a bundle that an administrator publishes once, and the weights that rounds give it.

Every publication starts a lineage of its own: the first round of a new one begins with the bundle's own weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from aggregator_server.errors import (
    ForeignFeaturesError,
    InvalidRequestError,
    MalformedModelError,
    ModelNotFoundError,
    ModelTooSmallError,
    NoModelError,
    RoundOpenError,
)
from aggregator_server.fleet.classes import all_classes
from aggregator_server.fleet.public_sets import current_version as current_public_set
from aggregator_server.names import check_name
from aggregator_server.schemas import ModelInfo
from aggregator_server.store import Store
from aggregator_server.store.blobs import Incoming
from aggregator_server.store.tables import BlobRow, ModelRow, RoundRow
from fleet_protocol.bundle import Manifest, unpack_bundle
from fleet_protocol.errors import FeatureMismatchError, ProtocolError
from fleet_protocol.feature_settings import FeatureSettings


@dataclass(frozen=True)
class StartingPoint:
    """What a round of a lineage goes on from.

    Attributes:
        version: of the model.
        weights: blob of the fleet's weights; None: the bundle's own.
        server_state: blob of the aggregation's state, such as a server optimiser's; None at first.
    """

    version: int
    weights: str | None
    server_state: str | None


def publish_model(store: Store, incoming: Incoming) -> ModelInfo:
    """Make a bundle the fleet's shared model. Publishing the current one again changes nothing.

    Raises:
        MalformedModelError: the bytes are no bundle.
        RoundOpenError: a round is open.
        ForeignFeaturesError: its features are not those of the public set.
        ModelTooSmallError: its head has fewer slots than the fleet has classes.
    """
    manifest = _read(incoming.content())
    sha256 = incoming.keep()
    with store.writing() as session:
        current = current_model(session)
        if current is None or current.sha256 != sha256:
            _check_usable(session, manifest)
            session.merge(BlobRow(sha256=sha256, kind="model"))
            session.flush()
            session.add(
                ModelRow(
                    sha256=sha256, architecture=manifest.architecture,
                    capacity=manifest.capacity, parameters=manifest.parameters,
                )
            )  # fmt: skip
            session.flush()
        return _info(session)


def describe_model(store: Store) -> ModelInfo:
    """Return the shared model without its arrays.

    Raises:
        ModelNotFoundError: none has been published.
    """
    with store.reading() as session:
        return _info(session)


def current_model(session: Session) -> ModelRow | None:
    """Return the model that was published last."""
    return session.scalar(select(ModelRow).order_by(ModelRow.version.desc()).limit(1))


def starting_point(session: Session, follows: int | None = None, group_index: int | None = None) -> StartingPoint:
    """Return what a new round starts from.

    Args:
        session: of the transaction that opens the round.
        follows: for a group's round: the fleet's round that it goes on from.
        group_index: and which group's it is.

    Raises:
        NoModelError: no model has been published.
        ModelTooSmallError: the fleet has more classes by now than the model's head has slots.
    """
    if follows is not None:
        fleets = session.get_one(RoundRow, follows)
        before = _newest(session, int(fleets.model_version or 0), follows, group_index) or fleets
        return StartingPoint(int(fleets.model_version or 0), before.result_weights, before.result_server_state)
    model = current_model(session)
    if model is None:
        raise NoModelError(
            "this strategy shares a model, and none has been published; "
            "publish one with `auricle-aggregator publish-model`"
        )
    _check_capacity(session, model.capacity)
    found = _newest(session, model.version, None, None)
    if found is None:
        return StartingPoint(model.version, None, None)
    return StartingPoint(model.version, found.result_weights, found.result_server_state)


def model_blob(session: Session, version: int | None) -> str | None:
    """Return the blob of a model's bundle; None where a round has no model."""
    return None if version is None else session.get_one(ModelRow, version).sha256


def read_manifest(store: Store, sha256: str) -> Manifest:
    """Return the manifest of a published model.

    Raises:
        BlobError: it is missing or damaged.
    """
    return unpack_bundle(store.blobs.read(sha256), f"model {sha256}").manifest


def _newest(session: Session, version: int, follows: int | None, group_index: int | None) -> RoundRow | None:
    branch = (RoundRow.follows == follows) & (RoundRow.group_index == group_index)
    done = select(RoundRow).where(
        RoundRow.state == "done",
        RoundRow.model_version == version,
        RoundRow.follows.is_(None) if follows is None else branch,
    )
    return session.scalar(done.order_by(RoundRow.round_id.desc()).limit(1))


def _read(data: bytes) -> Manifest:
    try:
        manifest = unpack_bundle(data, "the body").manifest
        check_name(manifest.architecture, "the architecture's name")
    except (ProtocolError, InvalidRequestError) as error:
        raise MalformedModelError(f"the body cannot be used as a model: {error}") from error
    return manifest


def _check_usable(session: Session, manifest: Manifest) -> None:
    round_id = session.scalar(select(RoundRow.round_id).where(RoundRow.state == "open"))
    if round_id is not None:
        raise RoundOpenError(f"round {round_id} is open; let it end or cancel it before publishing another model")
    public_set = current_public_set(session)
    if public_set is not None:
        try:
            FeatureSettings.from_json(public_set.features).require_same(
                manifest.feature_settings, "the public set", "the model"
            )
        except FeatureMismatchError as error:
            raise ForeignFeaturesError(str(error)) from error
    _check_capacity(session, manifest.capacity)


def _check_capacity(session: Session, capacity: int) -> None:
    classes = len(all_classes(session))
    if classes > capacity:
        raise ModelTooSmallError(
            f"the fleet has {classes} classes and the model's head {capacity} slots; "
            "publish a model that was built with a larger --capacity"
        )


def _info(session: Session) -> ModelInfo:
    row = current_model(session)
    if row is None:
        raise ModelNotFoundError("no model yet; an administrator publishes one with `auricle-aggregator publish-model`")
    newest = _newest(session, row.version, None, None)
    weights = None if newest is None else newest.result_weights
    return ModelInfo(row.version, row.sha256, row.architecture, row.capacity, row.parameters, weights)
