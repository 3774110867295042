"""Fills a data folder with a fleet of any size: its devices, and rounds with everything that they leave in the tables.

The rows are drawn with a seed. They are inserted through the tables' own descriptions, so that any database can be
filled that the server runs with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from sqlalchemy import func, insert, select, update

from aggregator_server.rounds.plan import make_plan
from aggregator_server.rounds.publishing import publish_model, publish_public_set
from aggregator_server.schemas import RoundRequest
from aggregator_server.security import hash_secret
from aggregator_server.store import Store
from aggregator_server.store.tables import (
    DONE,
    FAILED,
    RETIRED,
    AssignmentRow,
    AuditRow,
    Base,
    BlobRow,
    ClassRow,
    DeviceRow,
    InvitationRow,
    LearnedRow,
    OperationRow,
    ParticipantRow,
    ReputationRow,
    RoundRow,
    TokenRow,
    table_of,
)
from benchmarks.bundles import READY
from fleet_protocol.bundle import Bundle, read_bundle
from fleet_protocol.messages import ClassInfo
from fleet_protocol.public_set import PublicSet

PARTICIPANTS = 100  # of a round
GROUPS, FORMER_CLASSES, TOKENS = 200, 500, 50
_BATCH = 10_000
_CLASSES, _SAMPLES = 8, 4
_DAY_S = 86_400.0
_ROOMS = ("attic", "barn", "cellar", "Diele", "garage", "hall", "kitchen", "office", "porch", "Küche", "shed", "shop")
_PROGRAMS = ("0.9.0", "0.10.1", "1.0.0", "99.0.0", "99.1.0")
_ARCHITECTURES = ("linear", "cnn1", "cnn2", "dscnn3", "ann3", "mlp")
_TROUBLE = "its model is of another front end than the fleet's"


def secret_of(number: int) -> str:
    """Return the secret of the device with a number, from 0."""
    return f"secret-of-device-{number:020d}"


def identifier(number: int) -> str:
    """Return the identifier of the device with a number: like one that was drawn, so in no order."""
    return f"{Random(number).getrandbits(128):032x}"  # noqa: S311  (no secret)


def fill(folder: Path, devices: int, rounds: int) -> None:
    """Make a data folder whose fleet has so many devices and so many rounds that are over.

    Args:
        folder: folder of the data, new or empty.
    """
    store, now = Store(folder), time.time()
    try:
        bundle = read_bundle(READY / "base.auricle")
        public_set = _publish(store, bundle)
        features = bundle.manifest.feature_settings
        rng = Random(f"{devices} {rounds}")  # noqa: S311  (no secret)
        with store.writing() as session:
            connection = session.connection()

            def put(kind: type[Base], rows: Iterable[dict[str, Any]]) -> None:
                statement, left = insert(table_of(kind)), iter(rows)
                while batch := list(islice(left, _BATCH)):
                    connection.execute(statement, batch)

            put(InvitationRow, _invitations(now))
            put(TokenRow, _tokens(now))
            settings, digest = features.to_json(), features.digest
            put(DeviceRow, _devices(rng, devices, now, settings, digest))
            put(RoundRow, _rounds(rounds, now, public_set))
            put(OperationRow, _operations(rounds))
            _put_parts(put, rng, devices, rounds, now)
            put(ReputationRow, _reputations(rng, devices, now))
            put(ClassRow, _classes(rounds))
            put(AssignmentRow, _assignments(rng, devices, rounds))
            put(AuditRow, _audit(rng, devices, rounds, now))
    finally:
        store.close()


def refresh(folder: Path) -> None:
    """Move the times at which devices were heard of last, so that those that were there then are there now."""
    store = Store(folder)
    try:
        with store.writing() as session:
            newest = session.scalar(select(func.max(DeviceRow.seen_at))) or 0.0
            session.execute(update(DeviceRow).values(seen_at=DeviceRow.seen_at + (time.time() - newest)))
    finally:
        store.close()


def _publish(store: Store, bundle: Bundle) -> str:
    """Publish a public set and a model; return the former's digest."""
    known = bundle.manifest.embedding_statistics
    assert known is not None
    features = known.samples[:_CLASSES, :_SAMPLES].reshape(-1, *bundle.manifest.input_shape)
    labels = np.repeat(np.arange(_CLASSES, dtype=np.int64), _SAMPLES)
    classes = tuple(ClassInfo(f"c{index}", word) for index, word in enumerate(known.words[:_CLASSES]))
    public_set = PublicSet(bundle.manifest.feature_settings, classes, features, labels, np.zeros(len(labels), np.bool_))
    with store.blobs.receive() as incoming:
        incoming.write(public_set.pack())
        info = publish_public_set(store, incoming)
    with store.blobs.receive() as incoming:
        incoming.write((READY / "base.auricle").read_bytes())
        publish_model(store, incoming)
    return info.sha256


def _invitations(now: float) -> Iterator[dict[str, Any]]:
    for number in range(1, GROUPS + 1):
        yield {
            "invitation_id": number,
            "token_hash": hash_secret(f"invitation {number}"),
            "devices": 10_000,
            "used": 5_000,
            "group_name": f"site {number:04d}",
            "made_at": now - 900 * _DAY_S,
            "expires_at": None,
            "revoked_at": None,
        }


def _tokens(now: float) -> Iterator[dict[str, Any]]:
    for number in range(1, TOKENS + 1):
        yield {
            "token_id": number,
            "token_hash": hash_secret(f"token {number}"),
            "name": f"person {number}",
            "role": "viewer",
            "made_at": now - 900 * _DAY_S,
            "expires_at": None,
            "revoked_at": None,
        }


def _devices(rng: Random, count: int, now: float, features: dict[str, Any], digest: str) -> Iterator[dict[str, Any]]:
    """Yield devices of which 4 in 5 are there, one in 100 was revoked, and few need somebody."""
    for number in range(count):
        group = rng.randrange(GROUPS * 3 // 2) + 1
        enrolled = now - 800 * _DAY_S * (1 - number / count)
        here = rng.random() < 0.8
        yield {
            "device_id": identifier(number),
            "secret_hash": hash_secret(secret_of(number)),
            "name": f"{rng.choice(_ROOMS)} {number:07d}",
            "architecture": rng.choice(_ARCHITECTURES),
            "features": features,
            "features_digest": digest,
            "labels": [f"sound {rng.randrange(1_000)}" for _ in range(rng.randrange(4))],
            "clips": rng.randrange(400),
            "label_entropy": rng.random() * 2,
            "network": None,
            "trouble": _TROUBLE if rng.random() < 0.002 else None,
            "versions": {"program": rng.choice(_PROGRAMS), "python": "3.11.2"} if rng.random() < 0.95 else None,
            "enrolled_at": enrolled,
            "seen_at": now - rng.random() * 600 if here else max(enrolled, now - rng.random() * 90 * _DAY_S),
            "revoked_at": now - rng.random() * 90 * _DAY_S if rng.random() < 0.01 else None,
            "invitation_id": group if group <= GROUPS else None,
            "group_name": f"site {group:04d}" if group <= GROUPS else None,
            "waiting": rng.random() < 0.001,
            "rotate": False,
            "secret_since": None,
        }


def _opened(number: int, rounds: int, now: float) -> float:
    return now - 3_600.0 * (rounds - number + 1)


def _rounds(count: int, now: float, public_set: str) -> Iterator[dict[str, Any]]:
    plan = asdict(make_plan(RoundRequest("prototypes")))
    for number in range(1, count + 1):
        opened, failed = _opened(number, count, now), number % 50 == 0
        yield {
            "round_id": number,
            "state": FAILED if failed else DONE,
            "reason": "quorum missed: 12 of 100 selected devices uploaded before the deadline" if failed else None,
            "strategy": "prototypes",
            "plan": plan,
            "new_classes": None,
            "opened_at": opened,
            "deadline_at": opened + 3_000,
            "closed_at": opened + 600,
            "public_set": public_set,
            "result_public_set": None if failed else public_set,
            "training_loss": None,
            "details": {"accuracies": {}, "aggregation": {"rule": "prototype_mean"}},
        }


def _operations(rounds: int) -> Iterator[dict[str, Any]]:
    for number in range(100, rounds + 1, 100):
        yield {"round_id": number - 1, "what": "retire", "restores": None, "details": {}}


def _put_parts(
    put: Callable[[type[Base], Iterable[dict[str, Any]]], None], rng: Random, devices: int, rounds: int, now: float
) -> None:
    """Insert who took part in each round, with their uploads, and who learned from it."""
    per_batch = _BATCH // PARTICIPANTS
    for first in range(1, rounds + 1, per_batch):
        uploads, parts, learned = [], [], []
        for number in range(first, min(first + per_batch, rounds + 1)):
            opened = _opened(number, rounds, now)
            for of in rng.sample(range(devices), min(PARTICIPANTS, devices)):
                sha256 = f"{rng.getrandbits(256):064x}" if rng.random() < 0.9 else None
                if sha256 is not None:
                    uploads.append({"sha256": sha256, "kind": "update"})
                part = {"round_id": number, "device_id": identifier(of)}
                took = {"upload": sha256, "uploaded_at": None if sha256 is None else opened + 500 * rng.random()}
                parts.append(part | took | {"clips": 40, "metrics": {"training_loss": 0.4}, "other": False})
                if sha256 is not None and number % 50:
                    metrics = {"held_out_after": 70 + 20 * rng.random(), "public_after": 80.0}
                    learned.append(part | {"personalised": False, "kept_own": False, "metrics": metrics})
        put(BlobRow, uploads)
        put(ParticipantRow, parts)
        put(LearnedRow, learned)


def _reputations(rng: Random, devices: int, now: float) -> Iterator[dict[str, Any]]:
    """Yield the reputation of every third device; 1 in 2,000 devices is in quarantine."""
    for number in range(0, devices, 3):
        held = rng.random() < 0.0015
        yield {
            "device_id": identifier(number),
            "counted": rng.randrange(9),
            "screened": 5 if held else 0,
            "refused": 0,
            "refused_in": None,
            "refusal": None,
            "suspicion": 3 if held else int(rng.random() < 0.01),
            "quarantined_at": now - _DAY_S if held else None,
            "reason": "5 of its uploads stood out" if held else None,
        }


def _classes(rounds: int) -> Iterator[dict[str, Any]]:
    for number in range(1, FORMER_CLASSES + 1):
        yield {
            "class_id": f"s{number}",
            "name": f"sound {number}",
            "folded": f"\n{number}",  # no name can be it
            "position": -number,
            "discovered_in": 1 + number % rounds,
            "state": RETIRED,
        }


def _assignments(rng: Random, devices: int, rounds: int) -> Iterator[dict[str, Any]]:
    for number in range(0, devices, 10):
        yield {
            "device_id": identifier(number),
            "slot": 9,
            "class_id": f"s{1 + rng.randrange(FORMER_CLASSES)}",
            "round_id": 1 + rng.randrange(rounds),
            "acknowledged": True,
        }


def _audit(rng: Random, devices: int, rounds: int, now: float) -> Iterator[dict[str, Any]]:
    """Yield an entry for every enrolment and for the ends of every round, and some of people, oldest first."""
    total = devices + 2 * rounds
    for number in range(total):
        at = now - 800 * _DAY_S * (1 - number / total)
        if number * 2 * rounds // total != (number + 1) * 2 * rounds // total:
            what, who = "round_opened", "server"
            details: dict[str, Any] = {"round_id": 1 + number * rounds // total}
        elif rng.random() < 0.001:
            what, who, details = "signed_in", f"person {1 + rng.randrange(TOKENS)}", {}
        else:
            of = rng.randrange(devices)
            what, who = "device_enrolled", f"invitation {1 + of % GROUPS}"
            details = {"device_id": identifier(of), "name": f"attic {of:07d}", "waiting": False}
        yield {"at": at, "who": who, "address": "192.0.2.7", "what": what, "details": details}
