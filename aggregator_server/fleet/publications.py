"""What rounds work on: the versions of the public set, and the shared model's bundles; of each the newest is current.

An administrator publishes both (rounds/publishing.py). Rounds that discover classes add versions of the public set;
rounds/queries.py finds the weights that rounds gave the model.
"""

import json
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, bindparam, case, select
from sqlalchemy.orm import Session

from aggregator_server.aggregation.contract import UploadTerms
from aggregator_server.aggregation.input_bounds import FeatureRange
from aggregator_server.errors import RefusedError
from aggregator_server.fleet.classes import all_classes
from aggregator_server.store.store import Store
from aggregator_server.store.tables import BLOBS, MODELS, PUBLIC_SETS, DeviceRow, ModelRow, PublicSetRow
from fleet_protocol.bundle.bundle_file import Manifest, unpack_bundle
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.errors import FeatureMismatchError
from fleet_protocol.messages.public_set import PublicSet

_SERVED = ("public_set", "consensus", "model", "weights", "prototypes")
_KIND = select(BLOBS.c.kind).where(BLOBS.c.sha256 == bindparam("of_blob"))
_NEWEST = (
    select(PUBLIC_SETS.c.sha256, PUBLIC_SETS.c.samples, PUBLIC_SETS.c.features)
    .order_by(PUBLIC_SETS.c.version.desc())
    .limit(1)
)

_BLOB = select(MODELS.c.sha256).where(MODELS.c.version == bindparam("of_version"))


def current_version(session: Session) -> PublicSetRow | None:
    """Return the newest version of the public set."""
    return session.scalar(select(PublicSetRow).order_by(PublicSetRow.version.desc()).limit(1))


def require_fleets_features(session: Session, settings: FeatureSettings, whose: str, hint: str = "") -> None:
    """Check that features are those of the public set, where there is one. Raises RefusedError: they are others."""
    public_set = current_version(session)
    if public_set is not None:
        try:
            public_set.settings.require_same(settings, "the public set", whose)
        except FeatureMismatchError as error:
            raise RefusedError("feature_mismatch", f"{hint}{error}") from error


def upload_terms(session: Session) -> UploadTerms:
    """Return what an upload for the open round must fit; the public set does not change while a round is open."""
    row: Any = session.connection().execute(_NEWEST).first() or published_set(session)
    class_ids = tuple(info.class_id for info in all_classes(session))
    return UploadTerms(row.sha256, row.samples, class_ids, _settings(json.dumps(row.features)))


@lru_cache(maxsize=4)
def _settings(features: str) -> FeatureSettings:
    return FeatureSettings.from_json(json.loads(features))


@lru_cache(maxsize=2)
def feature_range(store: Store, sha256: str) -> FeatureRange:
    """Return the range of a public set's recordings; impressions do not widen it. Raises BlobError: it is damaged."""
    public_set = PublicSet.unpack(store.blobs.read(sha256))
    recordings = public_set.features[~public_set.synthetic]
    return FeatureRange.of(recordings if len(recordings) else public_set.features)


def require_served(store: Store, sha256: str) -> None:
    """Check that a blob is one that devices may fetch. Raises RefusedError: it is not."""
    with store.reading() as session:
        kind = session.execute(_KIND, {"of_blob": sha256}).scalar()
    if kind not in _SERVED:
        raise RefusedError(
            "blob_not_found",
            f"no public set, consensus, model, weights or prototypes have the digest {sha256!r}; ask /v1/work for the "
            "current ones",
        )


def published_set(session: Session) -> PublicSetRow:
    """Return the newest version of the public set. Raises RefusedError: none has been published."""
    row = current_version(session)
    if row is None:
        raise RefusedError(
            "public_set_not_found",
            "no public set yet; an administrator publishes one with `auricle-aggregator publish`",
        )
    return row


def public_set_row(sha256: str, public_set: PublicSet, round_id: int | None) -> PublicSetRow:
    """Return the row of a new version."""
    return PublicSetRow(
        sha256=sha256,
        samples=len(public_set.labels),
        synthetic=int(public_set.synthetic.sum()),
        features=public_set.settings.to_json(),
        round_id=round_id,
    )


def current_model(session: Session) -> ModelRow | None:
    """Return the model that was published last."""
    return session.scalar(select(ModelRow).order_by(ModelRow.version.desc()).limit(1))


def published_model(session: Session) -> ModelRow:
    """Return the model that was published last. Raises RefusedError: none has been published."""
    row = current_model(session)
    if row is None:
        raise RefusedError(
            "model_not_found", "no model yet; an administrator publishes one with `auricle-aggregator publish-model`"
        )
    return row


def required_model(session: Session) -> ModelRow:
    """Return the model that a new round trains. Raises RefusedError: there is none, or it has too few slots."""
    model = current_model(session)
    if model is None:
        raise RefusedError(
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
        raise RefusedError(
            "model_too_small",
            f"the fleet has {classes} classes and the model's head {capacity} slots; "
            "publish a model that was built with a larger --capacity",
        )
