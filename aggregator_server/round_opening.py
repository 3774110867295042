"""The row of a new round, and the devices that are drawn for it."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import insert
from sqlalchemy.orm import Session

from aggregator_server.candidates import read_candidates, read_history
from aggregator_server.errors import NoDevicesError, NoPublicSetError
from aggregator_server.lineage import Group
from aggregator_server.public_sets import current_consensus, current_version
from aggregator_server.selection import select
from aggregator_server.store.tables import ParticipantRow, RoundRow
from fleet_protocol.messages import RoundPlan


def insert_round(
    session: Session, strategy: str, plan: RoundPlan, new_classes: int | None, now: float, group: Group | None = None
) -> RoundRow:
    """Open a round; no other may be open.

    Raises:
        NoPublicSetError: there is nothing to score.
        NoDevicesError: there is nobody to do it.
    """
    public_set = current_version(session)
    if public_set is None:
        raise NoPublicSetError("there is no public set yet; publish one with `auricle-aggregator publish`")
    row = RoundRow(
        state="open",
        strategy=strategy,
        plan=asdict(plan),
        new_classes=new_classes,
        opened_at=now,
        deadline_at=now + plan.deadline_s,
        public_set=public_set.sha256,
        consensus=current_consensus(session),
        follows=None if group is None else group.follows,
        group_index=None if group is None else group.index,
        details={},
    )
    session.add(row)
    session.flush()
    selected = _of_fleet(session, row, plan, now) if group is None else group.members
    chosen = [{"round_id": row.round_id, "device_id": device_id, "metrics": {}} for device_id in selected]
    session.execute(insert(ParticipantRow), chosen)
    return row


def _of_fleet(session: Session, row: RoundRow, plan: RoundPlan, now: float) -> tuple[str, ...]:
    candidates, history = read_candidates(session, now), read_history(session, row.strategy)
    selected = select(candidates, plan.selection, history, (plan.seed, row.round_id))
    if not candidates:
        raise NoDevicesError("no device is enrolled; start `auricle-edge run` on one first")
    if not selected:
        limit = plan.selection.settings["seen_within_s"]
        raise NoDevicesError(f"no device was heard of in the last {limit:g} s; raise the selection's seen_within_s")
    return selected
