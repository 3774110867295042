"""A region takes over what the upper fleet has: public set, classes and model, and the result of a round.

A result becomes a round without devices that is done, as an operator's operation does. The region's devices learn from
it as from any other.
"""

from dataclasses import asdict, replace

from sqlalchemy.orm import Session

from aggregator_server.errors import CannotPassOnError
from aggregator_server.fleet import public_sets, shared_models
from aggregator_server.fleet.classes import all_classes, set_columns
from aggregator_server.fleet.region import ADOPTION
from aggregator_server.region.material import Material, plan_of
from aggregator_server.rounds.queries import OF_FLEET, lock_open_round, newest_done
from aggregator_server.rounds.states import mark_failed
from aggregator_server.store.tables import DONE, MERGED, RETIRED, BlobRow, ClassRow, OperationRow, RegionRow, RoundRow
from fleet_protocol.feature_settings import FeatureSettings
from fleet_protocol.messages import Work
from fleet_protocol.public_set import PublicSet


def has_adopted(session: Session, region: RegionRow, work: Work) -> bool:
    """Tell whether the region has taken over the result that work names, and goes on from it."""
    newest = newest_done(session, OF_FLEET)
    return (
        region.adopted == work.round_id
        and newest is not None
        and (newest.result_public_set, newest.result_weights) == (work.public_set, work.weights)
    )


def adopt(session: Session, region: RegionRow, material: Material, now: float) -> None:
    """Take over the result of an upper round, which ends the region's part in it where that is still open.

    Raises:
        AggregatorError: it cannot be taken over; says why.
    """
    work, plan = material.work, plan_of(material, rule=None, personalised=True)
    if work.weights is None:
        raise CannotPassOnError(f"the upper fleet's round {work.round_id} has no weights to learn from")
    end_part(session, now, f"the upper fleet's round {work.round_id} is over")
    version = follow(session, material)
    note_weights(session, work.weights)
    row = RoundRow(
        state=DONE,
        strategy=material.strategy,
        plan=asdict(plan),
        opened_at=now,
        closed_at=now,
        model_version=version,
        public_set=work.public_set,
        result_public_set=work.public_set,
        result_weights=work.weights,
        details={},
    )
    session.add(row)
    session.flush()
    session.add(OperationRow(round_id=row.round_id, what=ADOPTION, details={"upper_round": work.round_id}))
    set_classes(session, work, row.round_id)
    region.adopted, region.trouble = work.round_id, None


def end_part(session: Session, now: float, reason: str) -> None:
    """End the region's open round without a result."""
    row = lock_open_round(session)
    if row is not None:
        mark_failed(session, row.round_id, now, reason)
        session.expire(row)


def follow(session: Session, material: Material) -> int:
    """Make the upper fleet's public set and model the region's; return the model's version.

    Raises:
        AggregatorError: they cannot be; says why.
    """
    sha256, public_set = material.work.public_set, material.public_set
    set_public_set(session, sha256, public_set)
    current = shared_models.current_model(session)
    if current is None or current.sha256 != material.model:
        shared_models.insert(session, material.model, material.manifest)
        current = shared_models.published_model(session)
    return current.version


def set_public_set(session: Session, sha256: str, public_set: PublicSet) -> None:
    """Make a public set the current one, where it is not.

    Raises:
        CannotPassOnError: its features are others than those of the one before.
        FleetFeaturesError: enrolled devices compute their features in another way.
    """
    current = public_sets.current_version(session)
    if current is not None and current.sha256 == sha256:
        return
    if current is None:
        public_sets.check_features(session, public_set)
    elif (before := FeatureSettings.from_json(current.features)).digest != public_set.settings.digest:
        raise CannotPassOnError(
            f"the upper fleet changed its front end from {before.describe()} to {public_set.settings.describe()}; a "
            "region cannot follow: leave it, and join again with a new data folder"
        )
    _note_blob(session, sha256, "public_set")
    session.add(public_sets.public_set_row(sha256, public_set, None))
    session.flush()


def set_classes(session: Session, work: Work, round_id: int | None = None) -> None:
    """Make the upper fleet's classes the region's, by its names and in its order; former ones end as they did there.

    Args:
        round_id: the region's round that brings those which the upper fleet discovered.
    """
    known = [(info.class_id, info.name) for info in all_classes(session)]
    if known == [(info.class_id, info.name) for info in work.classes]:
        return
    for info in work.classes:
        row = session.get(ClassRow, info.class_id)
        if row is not None:
            row.name = info.name
    here = [replace(info, discovered_in=None if info.discovered_in is None else round_id) for info in work.classes]
    set_columns(session, here, left=RETIRED)
    for merged in work.merged:
        former, into = session.get(ClassRow, merged.class_id), session.get(ClassRow, merged.into)
        if former is not None and into is not None and former.state == RETIRED:
            former.state, former.merged_into = MERGED, into.class_id
    session.flush()


def note_weights(session: Session, sha256: str) -> None:
    """Let devices fetch weights."""
    _note_blob(session, sha256, "weights")


def _note_blob(session: Session, sha256: str, kind: str) -> None:
    session.merge(BlobRow(sha256=sha256, kind=kind))
    session.flush()
