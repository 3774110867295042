"""The fleet's shared model: the bundles that an administrator published; the newest is the current one.

rounds/publishing.py holds the whole of a publication, rounds/history.py the weights that rounds gave the model.
"""

from functools import lru_cache

from sqlalchemy import ColumnElement, bindparam, case, select
from sqlalchemy.orm import Session

from aggregator_server import errors
from aggregator_server.fleet.classes import all_classes
from aggregator_server.fleet.public_sets import current_version as current_public_set
from aggregator_server.names import check_name
from aggregator_server.schemas import ModelInfo, reply
from aggregator_server.store import Store
from aggregator_server.store.tables import BlobRow, DeviceRow, ModelRow, table_of
from fleet_protocol.bundle import Manifest, unpack_bundle
from fleet_protocol.errors import FeatureMismatchError, ProtocolError
from fleet_protocol.feature_settings import FeatureSettings
from fleet_protocol.tensors import Buffer

_MODELS = table_of(ModelRow)
_BLOB = select(_MODELS.c.sha256).where(_MODELS.c.version == bindparam("of_version"))


def current_model(session: Session) -> ModelRow | None:
    """Return the model that was published last."""
    return session.scalar(select(ModelRow).order_by(ModelRow.version.desc()).limit(1))


def published_model(session: Session) -> ModelRow:
    """Return the model that was published last. Raises ModelNotFoundError: none has been published."""
    row = current_model(session)
    if row is None:
        raise errors.ModelNotFoundError(
            "no model yet; an administrator publishes one with `auricle-aggregator publish-model`"
        )
    return row


def required_model(session: Session) -> ModelRow:
    """Return the model that a new round of the fleet trains.

    Raises:
        NoModelError: no model has been published.
        ModelTooSmallError: the fleet has more classes by now than the model's head has slots.
    """
    model = current_model(session)
    if model is None:
        raise errors.NoModelError(
            "this strategy shares a model, and none has been published; "
            "publish one with `auricle-aggregator publish-model`"
        )
    _check_capacity(session, model.capacity)
    return model


def describe(row: ModelRow, weights: str | None) -> ModelInfo:
    """Return a model without its arrays, with the blob of the fleet's weights for it."""
    return reply(ModelInfo, row, weights=weights)


def has_network(device: DeviceRow, model: ModelRow) -> bool:
    """Tell whether a device's bundle has a shared model's network, so that it can train its weights.

    Where either does not say what network it has, the architecture's name decides.
    """
    if device.network is None or model.network is None:
        return device.architecture == model.architecture
    return device.network == model.network


def with_network(model: ModelRow) -> ColumnElement[bool]:
    """Return the condition of :func:`has_network` for queries of devices."""
    by_name = DeviceRow.architecture == model.architecture
    if model.network is None:
        return by_name
    return case((DeviceRow.network.is_(None), by_name), else_=DeviceRow.network == model.network)


def model_blob(session: Session, version: int | None) -> str | None:
    """Return the blob of a model's bundle; None where a round has no model."""
    return None if version is None else str(session.execute(_BLOB, {"of_version": version}).scalar_one())


@lru_cache(maxsize=4)
def read_manifest(store: Store, sha256: str) -> Manifest:
    """Return the manifest of a published model, which every upload needs: it is read once.

    Raises:
        BlobError: it is missing or damaged.
    """
    return unpack_bundle(store.blobs.read(sha256), f"model {sha256}").manifest


def read(data: Buffer) -> Manifest:
    """Return the manifest of a bundle that is to be published. Raises MalformedModelError: the bytes are no bundle."""
    try:
        manifest = unpack_bundle(data, "the body").manifest
        check_name(manifest.architecture, "the architecture's name")
    except (ProtocolError, errors.InvalidRequestError) as error:
        raise errors.MalformedModelError(f"the body cannot be used as a model: {error}") from error
    return manifest


def insert(session: Session, sha256: str, manifest: Manifest) -> None:
    """Make a bundle the fleet's shared model.

    Raises:
        ForeignFeaturesError: its features are not those of the public set.
        ModelTooSmallError: its head has fewer slots than the fleet has classes.
    """
    _check_usable(session, manifest)
    session.merge(BlobRow(sha256=sha256, kind="model"))
    session.flush()
    session.add(
        ModelRow(
            sha256=sha256,
            architecture=manifest.architecture,
            capacity=manifest.slots,
            parameters=manifest.parameters,
            network=manifest.network,
        )
    )
    session.flush()


def _check_usable(session: Session, manifest: Manifest) -> None:
    public_set = current_public_set(session)
    if public_set is not None:
        try:
            FeatureSettings.from_json(public_set.features).require_same(
                manifest.feature_settings, "the public set", "the model"
            )
        except FeatureMismatchError as error:
            raise errors.ForeignFeaturesError(str(error)) from error
    _check_capacity(session, manifest.slots)


def _check_capacity(session: Session, capacity: int) -> None:
    classes = len(all_classes(session))
    if classes > capacity:
        raise errors.ModelTooSmallError(
            f"the fleet has {classes} classes and the model's head {capacity} slots; "
            "publish a model that was built with a larger --capacity"
        )
