"""Uploads are checked here, before anything changes. The same bytes sent twice are one upload."""

from __future__ import annotations

import dataclasses
from functools import partial

from sqlalchemy import select
from sqlalchemy.orm import Session

from aggregator_server.aggregation.contract import UploadTerms
from aggregator_server.errors import (
    AggregatorError,
    DuplicateUpdateError,
    ForeignFeaturesError,
    ForeignUpdateError,
    InvalidRequestError,
    MalformedUpdateError,
    NotSelectedError,
    RoundClosedError,
    WrongPublicSetError,
)
from aggregator_server.fleet.conduct import in_quarantine, note_refusal
from aggregator_server.fleet.public_sets import feature_range, upload_terms
from aggregator_server.fleet.shared_models import model_blob, read_manifest
from aggregator_server.limits import CLIPS, LABEL_ENTROPY, METRICS, UPDATE
from aggregator_server.names import check_name
from aggregator_server.rounds.continuous import is_due, present_round
from aggregator_server.rounds.queries import require_round
from aggregator_server.rounds.states import is_open
from aggregator_server.store import Store
from aggregator_server.store.blobs import Incoming
from aggregator_server.store.tables import BlobRow, DeviceRow, ParticipantRow, RoundRow
from aggregator_server.strategies.registry import strategy
from aggregator_server.strategies.strategy import Strategy
from fleet_protocol.errors import ProtocolError
from fleet_protocol.feature_settings import PRESETS, FeatureSettings
from fleet_protocol.messages import Receipt, RoundPlan, Update, parse
from fleet_protocol.tensors import Arrays, view


def require_expected(store: Store, round_id: int, device_id: str, announced: str | None, now: float) -> None:
    """Check that an upload would be taken, before its bytes are read.

    Args:
        store: of the fleet.
        round_id: the round.
        device_id: who wants to upload.
        announced: SHA-256 of the bytes, where the device says it.
        now: seconds since 1970.

    Raises:
        RoundNotFoundError, NotSelectedError, DuplicateUpdateError, RoundClosedError: it would not.
    """
    with store.reading() as session:
        _admit(session, round_id, device_id, announced, now)


def accept_update(store: Store, round_id: int, device_id: str, incoming: Incoming, now: float) -> Receipt:
    """Check a device's upload for a round and keep it durably.

    Raises:
        RoundNotFoundError, NotSelectedError: the round does not exist, or is not the device's.
        DuplicateUpdateError: the device sent other bytes before.
        RoundClosedError: too late.
        MalformedUpdateError, ForeignUpdateError, WrongPublicSetError, ForeignFeaturesError: the upload is wrong.
    """
    repeated = Receipt(round_id, incoming.sha256, repeated=True)
    with store.reading() as session:
        participant = _admit(session, round_id, device_id, incoming.sha256, now)
        if participant is None:
            return repeated
        terms = upload_terms(session)
        round_row = require_round(session, round_id)
        chosen, model = _strategy(round_row, participant), model_blob(session, round_row.model_version)
    terms = dataclasses.replace(terms, feature_range=partial(feature_range, store, terms.public_set))
    if model is not None:
        terms = dataclasses.replace(terms, manifest=read_manifest(store, model))
    try:
        arrays, document = view(incoming.content(), UPDATE)
        update = parse(Update, document)
    except ProtocolError as error:
        raise MalformedUpdateError(f"the upload cannot be read: {error}") from error
    _check(terms, update, round_id, device_id)
    if round_row.series is None:  # else rounds may have ended since, which let the public set grow
        _check_public_set(terms, update)
    _check_values(store, chosen, terms, update, arrays, now)
    sha256 = incoming.keep()
    with store.writing() as session:
        try:
            row = _admit(session, round_id, device_id, sha256, now)
        except AggregatorError:  # the round ended meanwhile: no row will ever name these bytes
            store.blobs.remove(sha256)
            raise
        if row is None:
            return repeated
        session.merge(BlobRow(sha256=sha256, kind="update"))
        session.flush()
        session.add(row)
        row.upload, row.uploaded_at = sha256, now
        row.clips, row.metrics = update.clips, update.metrics
        device = session.get_one(DeviceRow, device_id)
        device.clips, device.label_entropy = update.clips or device.clips, update.label_entropy
    return Receipt(round_id, sha256, repeated=False)


def check_metrics(metrics: dict[str, float]) -> None:
    """Check a device's measurements: names that can be stored, finite values.

    Raises:
        InvalidRequestError: it cannot be stored.
    """
    if len(metrics) > METRICS:
        raise InvalidRequestError(f"{len(metrics)} metrics are more than the {METRICS} that are allowed")
    for name, value in metrics.items():
        check_name(name, "a metric's name")
        if not abs(value) <= 1e300:  # holds for NaN too
            raise InvalidRequestError(f"metric {name!r} is {value!r}; it must be a finite number")


def _strategy(round_row: RoundRow, participant: ParticipantRow) -> Strategy:
    """Return the strategy that a device was asked to follow."""
    others = parse(RoundPlan, round_row.plan).others
    return strategy(others.strategy if others is not None and participant.other else round_row.strategy)


def _admit(session: Session, round_id: int, device_id: str, sha256: str | None, now: float) -> ParticipantRow | None:
    """Return the row that the upload belongs in, or None where it is there already, or may be: only its bytes tell."""
    round_row = require_round(session, round_id)
    if round_row.series is not None:
        return _admit_to_series(session, round_row, device_id, sha256, now)
    row = session.get(ParticipantRow, (round_id, device_id))
    if row is None:
        raise NotSelectedError(
            f"device {device_id} was not selected for round {round_id}; GET /v1/work says what to do"
        )
    if row.upload is not None and sha256 in (None, row.upload):
        return None
    if row.upload is not None:
        raise DuplicateUpdateError(f"device {device_id} uploaded {row.upload} for round {round_id}; that one stands")
    if not is_open(round_row):
        raise RoundClosedError(f"round {round_id} is {round_row.state}; GET /v1/work says what to do next")
    _require_trusted(session, device_id)
    assert round_row.deadline_at is not None
    if now >= round_row.deadline_at:
        late = now - round_row.deadline_at
        raise RoundClosedError(f"round {round_id} closed {late:.1f} s ago, at its deadline; ask GET /v1/work")
    return row


def _admit_to_series(
    session: Session, round_row: RoundRow, device_id: str, sha256: str | None, now: float
) -> ParticipantRow | None:
    """Return a new row in the open round of a series, or None where the upload is in one of its rounds already."""
    same = ParticipantRow.device_id == device_id
    if sha256 is not None:
        same &= ParticipantRow.upload == sha256
    of_series = select(ParticipantRow.round_id).join(RoundRow, RoundRow.round_id == ParticipantRow.round_id)
    if session.scalar(of_series.where(same, RoundRow.series == round_row.series).limit(1)) is not None:
        return None
    current = present_round(session, round_row)
    if not is_open(current):
        raise RoundClosedError(f"the continuous rounds that round {round_row.round_id} was one of are over")
    _require_trusted(session, device_id)
    if not is_due(session, current, device_id, now):
        raise NotSelectedError(f"device {device_id} contributed lately; GET /v1/work says when it is asked again")
    return ParticipantRow(round_id=current.round_id, device_id=device_id, metrics={})


def _require_trusted(session: Session, device_id: str) -> None:
    """Check that a device's uploads count.

    Raises:
        NotSelectedError: it is in quarantine.
    """
    if in_quarantine(session, device_id):
        raise NotSelectedError(
            f"device {device_id} is in quarantine, so its uploads do not count; GET /v1/devices/me says why. "
            "An operator can release it"
        )


def _check(terms: UploadTerms, update: Update, round_id: int, device_id: str) -> None:
    if (update.round_id, update.device_id) != (round_id, device_id):
        raise ForeignUpdateError(
            f"the upload's document names round {update.round_id!r} and device {update.device_id!r}, "
            f"but it was sent for round {round_id} by device {device_id}"
        )
    if update.features != terms.settings.digest:
        raise ForeignFeaturesError(
            f"the upload's features were computed with other settings than the public set's.\n"
            f"  public set: {terms.settings.describe()}\n  upload: {_describe(update.features)}\n"
            "Use a bundle that was built with the public set's features, and enrol again."
        )
    _check_numbers(update)


def _check_values(
    store: Store, chosen: Strategy, terms: UploadTerms, update: Update, arrays: Arrays, now: float
) -> None:
    """Let the strategy check an upload, and note against its device that it was refused."""
    try:
        chosen.check(terms, update, arrays)
    except MalformedUpdateError as error:
        with store.writing() as session:
            note_refusal(session, update.device_id, update.round_id, str(error), now)
        raise


def _check_public_set(terms: UploadTerms, update: Update) -> None:
    if update.public_set != terms.public_set:
        raise WrongPublicSetError(
            f"the upload scored public set {update.public_set!r}, the round's is {terms.public_set}; "
            "fetch that one and score it again"
        )


def _check_numbers(update: Update) -> None:
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


def _describe(digest: str) -> str:
    known: dict[str, FeatureSettings] = {settings.digest: settings for settings in PRESETS.values()}
    return known[digest].describe() if digest in known else f"{digest!r} (settings that this server does not know)"
