"""Uploads: whether a round takes one, the checks before anything changes, and the rows that it becomes.

The same bytes sent twice are one upload. The statements are built once, because every upload needs them twice.
"""

import dataclasses
from functools import lru_cache, partial
from typing import Any

from sqlalchemy import and_, bindparam, case, exists, insert, literal, select, update
from sqlalchemy.orm import Session

from aggregator_server.aggregation.contract import UploadTerms
from aggregator_server.errors import AggregatorError, InvalidRequestError, MalformedUpdateError, RefusedError
from aggregator_server.fleet.publications import feature_range, read_manifest, upload_terms
from aggregator_server.fleet.reputation import note_refusal
from aggregator_server.limits import CLIPS, LABEL_ENTROPY, METRICS, UPDATE
from aggregator_server.names import check_name
from aggregator_server.rounds.plan_rows import parsed_plan
from aggregator_server.rounds.queries import is_open, no_such_round, state_of
from aggregator_server.store.blobs import Incoming
from aggregator_server.store.store import Store
from aggregator_server.store.tables import (
    BLOBS,
    DEVICES,
    MODELS,
    PARTICIPANTS,
    PARTS,
    REPUTATIONS,
    ROUNDS,
    STAGES,
    RoundRow,
)
from aggregator_server.strategies.plans import strategy
from aggregator_server.strategies.strategy import PrivateWay, Strategy
from fleet_protocol.bundle.feature_settings import PRESETS, FeatureSettings
from fleet_protocol.errors import ProtocolError
from fleet_protocol.messages.rest import Receipt, Update, parse
from fleet_protocol.numbers.tensors import view

_ROUND_AND_PARTICIPANT = (
    select(
        ROUNDS.c.round_id,
        ROUNDS.c.state,
        ROUNDS.c.reason,
        ROUNDS.c.deadline_at,
        ROUNDS.c.strategy,
        MODELS.c.sha256.label("model"),
        PARTICIPANTS.c.device_id,
        PARTICIPANTS.c.upload,
        REPUTATIONS.c.quarantined_at,
        STAGES.c.stage,
        PARTS.c.shares.is_not(None).label("has_shares"),
        PARTS.c.dropped,
    )
    .select_from(
        ROUNDS.outerjoin(
            PARTICIPANTS,
            and_(PARTICIPANTS.c.round_id == ROUNDS.c.round_id, PARTICIPANTS.c.device_id == bindparam("device_id")),
        )
        .outerjoin(MODELS, MODELS.c.version == ROUNDS.c.model_version)
        .outerjoin(STAGES, STAGES.c.round_id == ROUNDS.c.round_id)
        .outerjoin(PARTS, and_(PARTS.c.round_id == ROUNDS.c.round_id, PARTS.c.device_id == bindparam("device_id")))
        .outerjoin(REPUTATIONS, REPUTATIONS.c.device_id == bindparam("device_id"))
    )
    .where(ROUNDS.c.round_id == bindparam("round_id"))
)
_NOTE_BLOB = insert(BLOBS).from_select(
    ["sha256", "kind"],
    select(bindparam("sha256"), literal("update")).where(~exists().where(BLOBS.c.sha256 == bindparam("sha256"))),
)
_NOTE_UPLOAD = (
    update(PARTICIPANTS)
    .where(PARTICIPANTS.c.round_id == bindparam("of_round"), PARTICIPANTS.c.device_id == bindparam("of_device"))
    .values({name: bindparam(name) for name in ("upload", "uploaded_at", "clips", "metrics")})
)
_NOTE_CLIPS = (
    update(DEVICES)
    .where(DEVICES.c.device_id == bindparam("of_device"))
    .values(
        clips=case((bindparam("reported") > 0, bindparam("reported")), else_=DEVICES.c.clips),
        label_entropy=bindparam("entropy"),
    )
)


def _is_new(found: Any, round_id: int, device_id: str, sha256: str | None, now: float) -> bool:  # noqa: ANN401
    """Tell whether a round takes an upload that is not there yet; of one that may be there, only its bytes decide."""
    if found is None:
        raise no_such_round(round_id)
    if found.device_id is None:
        raise RefusedError(
            "not_selected", f"device {device_id} was not selected for round {round_id}; GET /v1/work says what to do"
        )
    if found.upload is not None and sha256 in (None, found.upload):
        return False
    if found.upload is not None:
        raise RefusedError(
            "duplicate_update", f"device {device_id} uploaded {found.upload} for round {round_id}; that one stands"
        )
    if not is_open(found):
        raise RefusedError("round_closed", f"round {round_id} is {state_of(found)}; GET /v1/work says what to do next")
    if found.quarantined_at is not None:
        raise RefusedError(
            "not_selected",
            f"device {device_id} is in quarantine, so its uploads do not count; GET /v1/devices/me says why. "
            "An operator can release it",
        )
    if now >= found.deadline_at:
        late = now - found.deadline_at
        raise RefusedError(
            "round_closed", f"round {round_id} closed {late:.1f} s ago, at its deadline; ask GET /v1/work"
        )
    if found.stage is not None and (found.stage != "contribute" or not found.has_shares or found.dropped):
        raise RefusedError(
            "stage_over",
            f"round {round_id} is private and in its stage {found.stage!r}, in which it takes no upload of device "
            f"{device_id}; GET /v1/work says what to do",
        )
    return True


def _admit(session: Session, round_id: int, device_id: str, sha256: str, now: float) -> Any:  # noqa: ANN401
    whose = {"round_id": round_id, "device_id": device_id}
    found = session.connection().execute(_ROUND_AND_PARTICIPANT, whose).first()
    return found if _is_new(found, round_id, device_id, sha256, now) else None


def expected(store: Store, round_id: int, device_id: str, announced: str | None, now: float) -> Any:  # noqa: ANN401
    """Return the round with the device's part in it, before an upload's bytes are read, or None if it may be there.

    Only the thread of the event loop may call it. ``announced``: SHA-256 of the bytes, where the device says it. Raises
    RoundNotFoundError, RefusedError: it would not be taken.
    """
    found = store.first_row(_ROUND_AND_PARTICIPANT, {"round_id": round_id, "device_id": device_id})
    return found if _is_new(found, round_id, device_id, announced, now) else None


def check_update(
    store: Store,
    round_id: int,
    device_id: str,
    incoming: Incoming,
    now: float,
    found: Any = None,  # noqa: ANN401
) -> Update | None:
    """Check a device's upload for a round; None where it is there already.

    ``found``: what :func:`expected` returned; None: it is looked for. What changed since, :func:`note_update` finds.
    Raises RoundNotFoundError, RefusedError: the round does not exist, or is not the device's. RefusedError: the device
    sent other bytes before; too late. MalformedUpdateError, RefusedError: the upload is wrong.
    """
    if found is None:
        with store.reading() as session:
            found = _admit(session, round_id, device_id, incoming.sha256, now)
        if found is None:
            return None
    terms = _terms(store, round_id, found.model)
    try:
        arrays, document = view(incoming.content(), UPDATE)
        update = parse(Update, document)
    except ProtocolError as error:
        raise MalformedUpdateError(f"the upload cannot be read: {error}") from error
    _check(terms, update, round_id, device_id)
    try:
        _way(found.strategy, terms).check(terms, update, arrays)
    except MalformedUpdateError as error:
        with store.writing() as session:
            note_refusal(session, device_id, round_id, str(error), now)
        raise
    return update


@lru_cache(maxsize=4)
def _terms(store: Store, round_id: int, model: str | None) -> UploadTerms:
    """Return what the uploads of an open round must fit; nothing of it changes while the round is open."""
    with store.reading() as session:
        terms = upload_terms(session)
        plan = parsed_plan(session.get_one(RoundRow, round_id).plan)
    reading = partial(feature_range, store, terms.public_set)
    manifest = None if model is None else read_manifest(store, model)
    return dataclasses.replace(terms, feature_range=reading, manifest=manifest, plan=plan)


def _way(name: str, terms: UploadTerms) -> Strategy | PrivateWay:
    found = strategy(name)
    return found if terms.plan is None or terms.plan.private is None or found.private is None else found.private


def note_update(store: Store, update: Update, sha256: str, now: float) -> Receipt:
    """Note an upload, checked and on disk; its receipt holds once flushed. Raises RefusedError: it came too late."""
    with store.writing(durable=False) as session:
        try:
            found = _admit(session, update.round_id, update.device_id, sha256, now)
        except AggregatorError:  # the round ended meanwhile: no row will ever name these bytes
            store.blobs.remove(sha256)
            raise
        if found is not None:
            who = {"of_device": update.device_id}
            write = session.connection().execute  # not the session's, which looks for objects to load
            write(_NOTE_BLOB, {"sha256": sha256})
            is_private = found.stage is not None  # so it says nothing of clips
            clips = None if is_private else update.clips
            values = {"upload": sha256, "uploaded_at": now, "clips": clips, "metrics": update.metrics}
            write(_NOTE_UPLOAD, who | {"of_round": update.round_id} | values)
            if not is_private:
                write(_NOTE_CLIPS, who | {"reported": update.clips, "entropy": update.label_entropy})
    return Receipt(update.round_id, sha256, repeated=found is None)


def check_metrics(metrics: dict[str, float]) -> None:
    """Check measurements: names and finite values. Raises InvalidRequestError: they cannot be stored."""
    if len(metrics) > METRICS:
        raise InvalidRequestError(f"{len(metrics)} metrics are more than the {METRICS} that are allowed")
    for name, value in metrics.items():
        check_name(name, "a metric's name")
        if not abs(value) <= 1e300:  # holds for NaN too
            raise InvalidRequestError(f"metric {name!r} is {value!r}; it must be a finite number")


def _check(terms: UploadTerms, update: Update, round_id: int, device_id: str) -> None:
    if (update.round_id, update.device_id) != (round_id, device_id):
        raise RefusedError(
            "foreign_update",
            f"the upload's document names round {update.round_id!r} and device {update.device_id!r}, "
            f"but it was sent for round {round_id} by device {device_id}",
        )
    if update.features != terms.settings.digest:
        raise RefusedError(
            "feature_mismatch",
            f"the upload's features were computed with other settings than the public set's.\n"
            f"  public set: {terms.settings.describe()}\n  upload: {_describe(update.features)}\n"
            "Use a bundle that was built with the public set's features, and enrol again.",
        )
    if type(update.clips) is not int or not 0 <= update.clips < CLIPS:
        raise MalformedUpdateError(f"clips must be a whole number from 0 to {CLIPS - 1}, not {update.clips!r}")
    if not 0.0 <= update.label_entropy <= LABEL_ENTROPY:  # holds for NaN too
        raise MalformedUpdateError(
            f"label_entropy must be from 0 to {LABEL_ENTROPY:g} nats, not {update.label_entropy!r}"
        )
    try:
        check_metrics(update.metrics)
    except InvalidRequestError as error:
        raise MalformedUpdateError(str(error)) from error
    if update.public_set != terms.public_set:
        raise RefusedError(
            "wrong_public_set",
            f"the upload scored public set {update.public_set!r}, the round's is {terms.public_set}; "
            "fetch that one and score it again",
        )


def _describe(digest: str) -> str:
    known: dict[str, FeatureSettings] = {settings.digest: settings for settings in PRESETS.values()}
    return known[digest].describe() if digest in known else f"{digest!r} (settings that this server does not know)"
