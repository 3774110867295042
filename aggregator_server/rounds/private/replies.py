"""A private round as people see it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy.orm import Session

from aggregator_server.rounds.private.groups import read_groups
from aggregator_server.rounds.private.waiting import count_answers
from aggregator_server.schemas import PrivateGroupInfo, PrivateInfo
from aggregator_server.store.tables import PrivateRoundRow
from fleet_protocol.messages.rest import RoundPlan
from fleet_protocol.secure_sums.privacy_budget import epsilon_of, spent_by


def private_info(session: Session, plan: RoundPlan, round_id: int, details: Mapping[str, Any]) -> PrivateInfo | None:
    """Return how a private round stands; None of another one. ``details``: those of the round's row."""
    if plan.private is None:
        return None
    size, progress = plan.private.group_size, session.get(PrivateRoundRow, round_id)
    epsilon = epsilon_of(spent_by(plan.private.noise)) if plan.private.noise else None
    if progress is None:
        over = tuple(
            PrivateGroupInfo(devices=tuple(group["devices"]), outcome=group["outcome"])
            for group in details.get("private_groups", ())
        )
        return PrivateInfo(group_size=size, epsilon=epsilon, stage=None, ends_at=None, answered=0, groups=over)
    groups = tuple(
        PrivateGroupInfo(devices=tuple(member.device_id for member in group.members), outcome=group.dropped or "")
        for group in read_groups(session, round_id)
    )
    return PrivateInfo(
        group_size=size,
        epsilon=epsilon,
        stage=progress.stage,
        ends_at=datetime.fromtimestamp(progress.ends_at, UTC),
        answered=count_answers(session, round_id, progress.stage),
        groups=groups,
    )
