"""The fleet's shared model: the bundles that an administrator published; the newest is the current one.

rounds/publishing.py publishes one, rounds/history.py has the weights that rounds gave the model.
"""

from functools import lru_cache

from sqlalchemy import ColumnElement, bindparam, case, select
from sqlalchemy.orm import Session

from aggregator_server import errors
from aggregator_server.fleet.classes import all_classes
from aggregator_server.store.store import Store
from aggregator_server.store.tables import MODELS, DeviceRow, ModelRow
from fleet_protocol.bundle.bundle_file import Manifest, unpack_bundle

_BLOB = select(MODELS.c.sha256).where(MODELS.c.version == bindparam("of_version"))


def current_model(session: Session) -> ModelRow | None:
    """Return the model that was published last."""
    return session.scalar(select(ModelRow).order_by(ModelRow.version.desc()).limit(1))


def published_model(session: Session) -> ModelRow:
    """Return the model that was published last. Raises RefusedError: none has been published."""
    row = current_model(session)
    if row is None:
        raise errors.RefusedError(
            "model_not_found", "no model yet; an administrator publishes one with `auricle-aggregator publish-model`"
        )
    return row


def required_model(session: Session) -> ModelRow:
    """Return the model that a new round trains. Raises RefusedError: there is none, or it has too few slots."""
    model = current_model(session)
    if model is None:
        raise errors.RefusedError(
            "no_model",
            "this strategy shares a model, and none has been published; "
            "publish one with `auricle-aggregator publish-model`",
        )
    check_capacity(session, model.capacity)
    return model


def with_network(model: ModelRow) -> ColumnElement[bool]:
    """Return the condition that a device's bundle has a shared model's network, so that it can train its weights.

    Where either does not say what network it has, the architecture's name decides.
    """
    by_name = DeviceRow.architecture == model.architecture
    if model.network is None:
        return by_name
    return case((DeviceRow.network.is_(None), by_name), else_=DeviceRow.network == model.network)


def model_blob(session: Session, version: int | None) -> str | None:
    """Return the blob of a model's bundle; None where a round has no model."""
    return None if version is None else str(session.execute(_BLOB, {"of_version": version}).scalar_one())


@lru_cache(maxsize=4)
def read_manifest(store: Store, sha256: str) -> Manifest:
    """Return a published model's manifest, which every upload needs. Raises BlobError: it is missing or damaged."""
    return unpack_bundle(store.blobs.read(sha256), f"model {sha256}").manifest


def check_capacity(session: Session, capacity: int) -> None:
    """Check that a head has a slot for every class of the fleet. Raises RefusedError: it has not."""
    classes = len(all_classes(session))
    if classes > capacity:
        raise errors.RefusedError(
            "model_too_small",
            f"the fleet has {classes} classes and the model's head {capacity} slots; "
            "publish a model that was built with a larger --capacity",
        )
