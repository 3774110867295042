"""A region's part in an upper round: a round of its own devices, whose result goes up as the upload of one device.

The upload is made of rows and blobs that do not change any more, so whoever makes it again makes the same bytes.
"""

from dataclasses import asdict

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from aggregator_server.aggregation.plausible import capped_sizes
from aggregator_server.errors import NoDevicesError
from aggregator_server.limits import CLIPS, CLIPS_CAP
from aggregator_server.region.adoption import end_part, follow, note_weights, set_classes
from aggregator_server.region.material import Material, plan_of
from aggregator_server.rounds.history import Part, StartingPoint
from aggregator_server.rounds.opening import insert_round
from aggregator_server.rounds.plan import parsed_plan, with_another_network
from aggregator_server.rounds.queries import newest_done, read_columns
from aggregator_server.store.blobs import BlobStore
from aggregator_server.store.tables import ParticipantRow, PublicSetRow, RegionRow, RoundRow
from aggregator_server.strategies.registry import local_methods
from aggregator_server.strategies.weight_sharing import PREFIX
from fleet_protocol.feature_settings import FeatureSettings
from fleet_protocol.messages import Choice, Update, parse
from fleet_protocol.tensors import pack, unpack

DEADLINE_SHARE = 0.8
"""Of the upper round's time, what the region's takes: the rest is for hearing of it, combining and sending."""


def open_part(session: Session, region: RegionRow, material: Material, now: float) -> RoundRow:
    """Open the region's round for an upper one, from that one's model; another that is open ends.

    Raises:
        AggregatorError: it cannot be opened; says why.
    """
    work = material.work
    rule = None if region.rule is None else parse(Choice, region.rule)
    plan = plan_of(material, rule=rule, personalised=False, deadline_share=DEADLINE_SHARE)
    end_part(session, now, f"the upper fleet goes on with round {work.round_id}")
    version = follow(session, material)
    set_classes(session, work)
    if work.weights is not None:
        note_weights(session, work.weights)
    before = newest_done(session, RoundRow.upper_round.is_not(None), RoundRow.model_version == version)
    start = StartingPoint(version, work.weights, None if before is None else before.result_server_state)
    part = Part(work.round_id, start, _members(session, material, version, now))
    row = insert_round(session, material.strategy, plan, None, now, part=part)
    region.part = row.round_id
    return row


def _members(session: Session, material: Material, version: int, now: float) -> tuple[str, ...]:
    """Return the devices that can train the model. Raises NoDevicesError: there is none."""
    local = local_methods()[material.work.plan.local.name]
    any_network = getattr(local, "any_architecture", False)
    others = frozenset[str]() if any_network else with_another_network(session, version)
    able = (one.decode() for one in read_columns(session, now).device_ids)
    found = tuple(device_id for device_id in able if device_id not in others)
    if not found:
        network = material.manifest.architecture
        raise NoDevicesError(f"no device of this region has the network of the upper model ({network})")
    return found


def upload_of(session: Session, blobs: BlobStore, region: RegionRow, row: RoundRow) -> bytes:
    """Return the upload that the region's round, which is done, has led to.

    It counts with the clips of the devices that its rule let count, each as far as the rule does.

    Raises:
        BlobError: the result's blob is missing or damaged.
    """
    sizes = _sizes(session, row)
    public_set = session.scalars(select(PublicSetRow).where(PublicSetRow.sha256 == row.public_set)).first()
    assert public_set is not None
    assert row.result_weights is not None
    assert row.upper_round is not None
    weights, document = unpack(blobs.read(row.result_weights))
    metrics = {"devices": float(len(sizes))}
    if row.training_loss is not None:
        metrics["training_loss"] = row.training_loss
    update = Update(
        round_id=row.upper_round,
        device_id=region.device_id,
        features=FeatureSettings.from_json(public_set.features).digest,
        public_set=row.public_set,
        classes=tuple(document["classes"]),
        clips=min(CLIPS - 1, round(float(sizes.sum()))),
        metrics=metrics,
    )
    return pack({PREFIX + name: array for name, array in weights.items()}, asdict(update))


def _sizes(session: Session, row: RoundRow) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return how many clips each device counts with that the rule let count, float64 [devices]."""
    screened = (row.details.get("aggregation") or {}).get("screened", {})
    dropped = {*screened, *row.details.get("damaged", ()), *row.details.get("quarantined", ())}
    uploaded = session.execute(
        select(ParticipantRow.device_id, ParticipantRow.clips)
        .where(ParticipantRow.round_id == row.round_id, ParticipantRow.upload.is_not(None))
        .order_by(ParticipantRow.device_id)
    )
    clips = np.array([count or 0 for device_id, count in uploaded if device_id not in dropped], np.float64)
    cap = float(parsed_plan(row.plan).aggregation.settings.get("clips_cap", CLIPS_CAP))
    return capped_sizes(clips, cap)
