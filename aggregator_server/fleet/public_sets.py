"""The versions of the public set: an administrator publishes the first, rounds that discover classes add others.

rounds/publishing.py publishes one.
"""

import json
from functools import lru_cache
from typing import Any

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from aggregator_server import errors
from aggregator_server.aggregation.contract import UploadTerms
from aggregator_server.aggregation.input_bounds import FeatureRange
from aggregator_server.fleet.classes import all_classes
from aggregator_server.store.store import Store
from aggregator_server.store.tables import BLOBS, PUBLIC_SETS, PublicSetRow
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
            raise errors.RefusedError("feature_mismatch", f"{hint}{error}") from error


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
        raise errors.RefusedError(
            "blob_not_found",
            f"no public set, consensus, model, weights or prototypes have the digest {sha256!r}; ask /v1/work for the "
            "current ones",
        )


def published_set(session: Session) -> PublicSetRow:
    """Return the newest version of the public set. Raises RefusedError: none has been published."""
    row = current_version(session)
    if row is None:
        raise errors.RefusedError(
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
