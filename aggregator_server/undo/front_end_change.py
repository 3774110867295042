"""Changing the fleet's front end, and back: classes stay, all else begins anew on the new features.

Prototypes, scores and weights belong to the features that they were learned on, so no round before the change counts
for later ones. Devices are asked to change to the bundle when they ask for work (web/routes/work.py); those that have
not done so take no part in rounds, and go on with what they have. The blobs are on disk before one transaction writes
all rows: a server that is killed has done all of it, or nothing. To change back is the same operation.
"""

from dataclasses import asdict

import numpy as np
from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from aggregator_server import errors
from aggregator_server.fleet import public_sets, shared_models
from aggregator_server.fleet.audit import SERVER, Actor, audit
from aggregator_server.fleet.classes import all_classes
from aggregator_server.fleet.front_end import FRONT_END, newest_change
from aggregator_server.rounds.opening import requested_plan
from aggregator_server.rounds.queries import newest_done
from aggregator_server.rounds.states import COUNTS
from aggregator_server.schemas import FrontEndInfo, RoundRequest, moment
from aggregator_server.store import Store
from aggregator_server.store.tables import (
    DONE,
    IS_ACTIVE,
    PROPOSED,
    UNDONE,
    AssignmentRow,
    BlobRow,
    ClassRow,
    DeviceRow,
    OperationRow,
    PublicSetRow,
    RoundRow,
)
from aggregator_server.undo.operations import ensure_no_open_round
from fleet_protocol.bundle import read_bundle
from fleet_protocol.feature_settings import FeatureSettings
from fleet_protocol.messages import ClassInfo
from fleet_protocol.public_set import PublicSet
from fleet_protocol.ready_bundles import choice, find_bundle, ready_names
from fleet_protocol.tensors import Buffer

_LONGEST_GRACE_S = 366 * 86_400.0


def change_front_end(
    store: Store, bundle: str, data: Buffer | None, grace_s: float, now: float, by: Actor = SERVER
) -> FrontEndInfo:
    """Make the front end of a ready bundle the fleet's; to the one that it has, only the grace changes.

    Args:
        data: public set with the new features, whose classes are found by identifier or name; None: the newest that
            the fleet ever had with them.
        grace_s: time for devices to follow, s.

    Raises:
        InvalidRequestError: there is no such ready bundle, or the grace is none.
        MalformedPublicSetError: the bytes are no public set, or none of its recordings is of a class of the fleet.
        ForeignFeaturesError: its features are not those of the bundle.
        PublicSetNotFoundError: the fleet has no public set yet, or none is given and it never had one with these
            features.
        RoundOpenError: a round is open.
        ModelTooSmallError: the bundle's head has fewer slots than the fleet has classes.
    """
    if bundle not in ready_names():
        raise errors.InvalidRequestError(f"no ready bundle is called {bundle[:64]!r}; {choice()}")
    if not 0 <= grace_s <= _LONGEST_GRACE_S:
        raise errors.InvalidRequestError(f"grace_s must be from 0 to {_LONGEST_GRACE_S:g} s, not {grace_s!r}")
    path = find_bundle(bundle)
    settings = read_bundle(path).manifest.feature_settings
    given = None if data is None else _with_features(public_sets.read(data), settings, bundle)
    with store.writing() as session:
        current = public_sets.current_version(session)
        if current is None:
            raise errors.PublicSetNotFoundError(
                "the fleet has no public set yet, so there is nothing to change: publish one with the features of "
                f"{bundle} (`auricle-aggregator publish`)"
            )
        if FeatureSettings.from_json(current.features).digest != settings.digest:
            public_set = _newest_with(store, session, settings, bundle) if given is None else given
            _change(store, session, bundle, settings, public_set, now)
        _set_grace(session, now + grace_s)
        audit(session, "front_end_changed", by, now, bundle=bundle, grace_s=grace_s)
        session.flush()
        return _describe(session, store)


def _with_features(public_set: PublicSet, settings: FeatureSettings, bundle: str) -> PublicSet:
    if public_set.settings.digest != settings.digest:
        raise errors.ForeignFeaturesError(
            f"the public set's features are {public_set.settings.describe()}, and those of {bundle} are "
            f"{settings.describe()}; compute it with `auricle-edge public-set --bundle {bundle}`"
        )
    return public_set


def _newest_with(store: Store, session: Session, settings: FeatureSettings, bundle: str) -> PublicSet:
    """Return the newest public set that the fleet ever had with some features."""
    for row in session.scalars(select(PublicSetRow).order_by(PublicSetRow.version.desc())):
        if FeatureSettings.from_json(row.features).digest == settings.digest:
            return PublicSet.unpack(store.blobs.read(row.sha256))
    raise errors.PublicSetNotFoundError(
        f"the fleet never had a public set with the features of {bundle}: give recordings of its classes "
        "(--from FOLDER)"
    )


def _change(
    store: Store, session: Session, bundle: str, settings: FeatureSettings, public_set: PublicSet, now: float
) -> None:
    ensure_no_open_round(session)
    classes, model = all_classes(session), shared_models.current_model(session)
    if not classes:
        raise errors.PublicSetNotFoundError("the fleet has no classes yet; publish a public set")
    public_set = _of_fleet(public_set, classes)
    sha256 = store.blobs.put(public_set.pack())
    session.merge(BlobRow(sha256=sha256, kind="public_set"))
    session.flush()
    operation = _insert_operation(session, sha256, now)
    session.add(public_sets.public_set_row(sha256, public_set, operation.round_id))
    before = newest_change(session)
    session.add(
        OperationRow(
            round_id=operation.round_id,
            what=FRONT_END,
            details={
                "bundle": bundle,
                "features": settings.digest,
                "former": _former(session, settings.digest),
                "grace_until": now,
                "before": "" if before is None else before.bundle,
            },
        )
    )
    _forget_proposals(session)
    session.flush()
    if model is not None:
        data = find_bundle(bundle).read_bytes()
        shared_models.insert(session, store.blobs.put(data), shared_models.read(data))


def _of_fleet(public_set: PublicSet, classes: tuple[ClassInfo, ...]) -> PublicSet:
    """Return a public set with the fleet's classes, in their order; rows of anything else are dropped.

    Classes without recordings have no rows: devices tell them apart by prototypes of later rounds.
    """
    by_id = {info.class_id: index for index, info in enumerate(classes)}
    by_name = {info.name.casefold(): index for index, info in enumerate(classes)}
    places = np.array(
        [by_id.get(info.class_id, by_name.get(info.name.casefold(), -1)) for info in public_set.classes], np.int64
    )[public_set.labels]
    kept = places >= 0
    if not kept.any():
        theirs, ours = (", ".join(info.name for info in known[:5]) for known in (public_set.classes, classes))
        raise errors.MalformedPublicSetError(
            f"no recording is of a class of the fleet: they are of {theirs}, and the classes are called {ours}"
        )
    return PublicSet(public_set.settings, classes, public_set.features[kept], places[kept], public_set.synthetic[kept])


def _insert_operation(session: Session, public_set: str, now: float) -> RoundRow:
    """Insert the round that stands for the change. Neither it nor any round before counts: rounds begin anew."""
    newest = newest_done(session)
    if newest is None:
        chosen, plan = requested_plan(session, RoundRequest(strategy="prototypes"))
        row = RoundRow(strategy=chosen.name, plan=asdict(plan), public_set=public_set)
    else:
        row = RoundRow(strategy=newest.strategy, plan=newest.plan, public_set=newest.result_public_set)
    row.state, row.opened_at, row.closed_at, row.details = DONE, now, now, {}
    row.result_public_set = public_set
    session.add(row)
    session.flush()
    session.execute(update(RoundRow).where(COUNTS).values(undone_by=row.round_id))
    return row


_FEATURES = select(PublicSetRow.features)


def _former(session: Session, present: str) -> list[str]:
    """Return the digests of the features that the fleet ever had, but for the present ones."""
    digests = {FeatureSettings.from_json(dict(features)).digest for features in session.scalars(_FEATURES)}
    return sorted(digests - {present})


def _forget_proposals(session: Session) -> None:
    """Let devices report again what waits for an operator: its rows belong to the former features."""
    waiting = select(ClassRow.class_id).where(ClassRow.state == PROPOSED)
    session.execute(delete(AssignmentRow).where(AssignmentRow.class_id.in_(waiting)))
    session.execute(update(ClassRow).where(ClassRow.state == PROPOSED).values(state=UNDONE, proposal=None))


def _set_grace(session: Session, until: float) -> None:
    """Say until when devices have time. A fleet that never changed its front end needs none."""
    newest = select(OperationRow).where(OperationRow.what == FRONT_END).order_by(OperationRow.round_id.desc()).limit(1)
    row = session.scalar(newest)
    if row is not None:
        row.details = row.details | {"grace_until": until}
        session.flush()


def _describe(session: Session, store: Store) -> FrontEndInfo:
    change = newest_change(session)
    current = public_sets.current_version(session)
    assert current is not None
    settings = FeatureSettings.from_json(current.features)
    present = PublicSet.unpack(store.blobs.read(current.sha256))
    with_rows = {present.class_ids[label] for label in np.unique(present.labels)}
    devices = session.execute(select(DeviceRow.name, DeviceRow.features_digest).where(IS_ACTIVE)).all()
    return FrontEndInfo(
        bundle="" if change is None else change.bundle,
        features=settings.digest,
        grace_until=None if change is None else moment(change.grace_until),
        to_follow=tuple(sorted(name for name, features in devices if features != settings.digest)),
        devices=len(devices),
        without_recordings=tuple(info.name for info in all_classes(session) if info.class_id not in with_rows),
    )
