"""Uploads are checked here, before anything changes. The same bytes sent twice are one upload."""

from __future__ import annotations

import dataclasses
from functools import partial

from aggregator_server.aggregation.contract import UploadTerms
from aggregator_server.errors import (
    AggregatorError,
    ForeignFeaturesError,
    ForeignUpdateError,
    InvalidRequestError,
    MalformedUpdateError,
    WrongPublicSetError,
)
from aggregator_server.fleet.public_sets import feature_range, upload_terms
from aggregator_server.fleet.reputation import note_refusal
from aggregator_server.fleet.shared_models import read_manifest
from aggregator_server.limits import CLIPS, LABEL_ENTROPY, METRICS, UPDATE
from aggregator_server.names import check_name
from aggregator_server.rounds.devices.admission import admit, note_upload
from aggregator_server.rounds.others import followed_strategy
from aggregator_server.rounds.plan import plan_of_text
from aggregator_server.store import Store
from aggregator_server.store.blobs import Incoming
from aggregator_server.strategies.registry import strategy
from aggregator_server.strategies.strategy import Strategy
from fleet_protocol.errors import ProtocolError
from fleet_protocol.feature_settings import PRESETS, FeatureSettings
from fleet_protocol.messages import Receipt, Update, parse
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
        admit(session, round_id, device_id, announced, now)


def check_update(store: Store, round_id: int, device_id: str, incoming: Incoming, now: float) -> Update | None:
    """Check a device's upload for a round; None where it is there already.

    Raises:
        RoundNotFoundError, NotSelectedError: the round does not exist, or is not the device's.
        DuplicateUpdateError: the device sent other bytes before.
        RoundClosedError: too late.
        MalformedUpdateError, ForeignUpdateError, WrongPublicSetError, ForeignFeaturesError: the upload is wrong.
    """
    with store.reading() as session:
        place = admit(session, round_id, device_id, incoming.sha256, now)
        if place is None:
            return None
        terms = upload_terms(session)
    found = place.found
    terms = dataclasses.replace(terms, feature_range=partial(feature_range, store, terms.public_set))
    if found.model is not None:
        terms = dataclasses.replace(terms, manifest=read_manifest(store, found.model))
    try:
        arrays, document = view(incoming.content(), UPDATE)
        update = parse(Update, document)
    except ProtocolError as error:
        raise MalformedUpdateError(f"the upload cannot be read: {error}") from error
    _check(terms, update, round_id, device_id)
    if not found.merges:  # else rounds may have ended since, which let the public set grow
        _check_public_set(terms, update)
    chosen = strategy(followed_strategy(plan_of_text(found.plan), found.strategy, other=found.other))
    _check_values(store, chosen, terms, update, arrays, now)
    return update


def note_update(store: Store, update: Update, sha256: str, now: float) -> Receipt:
    """Note an upload that was checked, and whose bytes are on disk; the receipt holds once the store is flushed.

    Raises:
        RoundNotFoundError, NotSelectedError, DuplicateUpdateError, RoundClosedError: it has no place any more.
    """
    with store.writing(durable=False) as session:
        try:
            place = admit(session, update.round_id, update.device_id, sha256, now)
        except AggregatorError:  # the round ended meanwhile: no row will ever name these bytes
            store.blobs.remove(sha256)
            raise
        if place is not None:
            note_upload(session, place, sha256, update, now)
    return Receipt(update.round_id, sha256, repeated=place is None)


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
