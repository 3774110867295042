"""Publishing what all rounds work on, a public set and a shared model: allowed only while no round is open."""

import time

from sqlalchemy.orm import Session

from aggregator_server.errors import PublicSetInUseError, RoundOpenError
from aggregator_server.fleet import public_sets, shared_models
from aggregator_server.fleet.audit import SERVER, Actor, audit
from aggregator_server.rounds.history import newest_with_model
from aggregator_server.rounds.queries import current_consensus, newest_done, open_round_id
from aggregator_server.schemas import ModelInfo, PublicSetInfo
from aggregator_server.store import Store
from aggregator_server.store.blobs import Incoming


def publish_public_set(store: Store, incoming: Incoming, by: Actor = SERVER) -> PublicSetInfo:
    """Make a public set the fleet's. Publishing the current one again changes nothing.

    It can be replaced as long as the fleet has no consensus on it and no round is open.

    Raises:
        MalformedPublicSetError: the bytes are no public set, or one with unusable class names.
        RoundOpenError: a round is open.
        PublicSetInUseError: the fleet has a consensus on the current one.
        FleetFeaturesError: enrolled devices compute their features in another way.
    """
    public_set = public_sets.read(incoming.content())
    sha256 = incoming.keep()
    with store.writing() as session:
        current = public_sets.current_version(session)
        if current is None or current.sha256 != sha256:
            _require_no_open_round(session, "public set")
            if newest_done(session) is not None:
                raise PublicSetInUseError(
                    "the fleet has a consensus or weights by the current public set's classes; another one needs a "
                    "data folder of its own"
                )
            public_sets.replace(session, sha256, public_set)
            audit(session, "public_set_published", by, time.time(), sha256=sha256)
        return _describe_public_set(session)


def describe_public_set(store: Store) -> PublicSetInfo:
    """Return the current public set without its arrays. Raises PublicSetNotFoundError: none has been published."""
    with store.reading() as session:
        return _describe_public_set(session)


def publish_model(store: Store, incoming: Incoming, by: Actor = SERVER) -> ModelInfo:
    """Make a bundle the fleet's shared model. Publishing the current one again changes nothing.

    Raises:
        MalformedModelError: the bytes are no bundle.
        RoundOpenError: a round is open.
        ForeignFeaturesError: its features are not those of the public set.
        ModelTooSmallError: its head has fewer slots than the fleet has classes.
    """
    manifest = shared_models.read(incoming.content())
    sha256 = incoming.keep()
    with store.writing() as session:
        current = shared_models.current_model(session)
        if current is None or current.sha256 != sha256:
            _require_no_open_round(session, "model")
            shared_models.insert(session, sha256, manifest)
            audit(session, "model_published", by, time.time(), sha256=sha256, architecture=manifest.architecture)
        return _describe_model(session)


def describe_model(store: Store) -> ModelInfo:
    """Return the shared model without its arrays. Raises ModelNotFoundError: none has been published."""
    with store.reading() as session:
        return _describe_model(session)


def _require_no_open_round(session: Session, what: str) -> None:
    round_id = open_round_id(session)
    if round_id is not None:
        raise RoundOpenError(f"round {round_id} is open; let it end or cancel it before publishing another {what}")


def _describe_public_set(session: Session) -> PublicSetInfo:
    return public_sets.describe(session, current_consensus(session))


def _describe_model(session: Session) -> ModelInfo:
    model = shared_models.published_model(session)
    newest = newest_with_model(session, model.version)
    return shared_models.describe(model, None if newest is None else newest.result_weights)
