"""Rounds: rows in the database, opened by an administrator and moved forward by an idempotent step (decision 5).

    open -> done | failed(reason)

:func:`advance` reads the state, computes, puts the blobs on disk, and then writes all effects in one transaction;
killed anywhere, it can start again and comes to the same bytes.
"""

from __future__ import annotations

import logging
from dataclasses import asdict

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from aggregator_server.candidates import read_candidates, read_history
from aggregator_server.errors import (
    InvalidPlanError,
    NoDevicesError,
    NoPublicSetError,
    RoundClosedError,
    RoundOpenError,
)
from aggregator_server.public_sets import current_consensus, current_version
from aggregator_server.replies import Method, RoundRequest
from aggregator_server.round_result import apply_result, compute_result
from aggregator_server.round_snapshot import read_open_round
from aggregator_server.round_views import require_round
from aggregator_server.selection import select as select_devices
from aggregator_server.store import Store
from aggregator_server.store.tables import ParticipantRow, RoundRow
from aggregator_server.strategies import strategy
from fleet_protocol.errors import PlanError
from fleet_protocol.messages import Choice, RoundPlan
from fleet_protocol.plans import complete

_log = logging.getLogger(__name__)
_LONGEST_S = 30 * 86_400.0
_REASON_LENGTH = 1_000


def make_plan(request: RoundRequest) -> RoundPlan:
    """Turn a request into a plan with every setting filled in.

    Raises:
        UnknownStrategyError: there is no such strategy.
        InvalidPlanError: a setting is unknown, of a wrong type or out of range.
    """
    chosen = strategy(request.strategy)
    if not 0 < request.deadline_s <= _LONGEST_S:
        raise InvalidPlanError(f"deadline_s must be above 0 and at most {_LONGEST_S:g} s, not {request.deadline_s!r}")
    if not 0 <= request.quorum <= 1:
        raise InvalidPlanError(f"quorum is a share from 0 to 1, not {request.quorum!r}")
    if not 0 <= request.seed < 2**31:
        raise InvalidPlanError(f"seed must be from 0 to {2**31 - 1}, not {request.seed!r}")
    if request.new_classes is not None and not 1 <= request.new_classes <= 1_000:
        raise InvalidPlanError(f"new_classes must be from 1 to 1000 or left out, not {request.new_classes!r}")
    selection = request.selection or Method(chosen.selection)
    personalisation = request.personalisation
    try:
        return RoundPlan(
            complete("local", Choice(chosen.local, request.settings)),
            complete("aggregation", Choice(chosen.aggregation, request.aggregation)),
            complete("selection", Choice(selection.name, selection.settings)),
            float(request.deadline_s),
            float(request.quorum),
            request.seed,
            complete("personalisation", Choice(personalisation.name, personalisation.settings)),
        )
    except PlanError as error:
        raise InvalidPlanError(str(error)) from error


def open_round(store: Store, request: RoundRequest, now: float) -> int:
    """Open a round with the devices that are enrolled now, and return its number.

    Raises:
        UnknownStrategyError, InvalidPlanError: the request cannot be met.
        RoundOpenError: another round is open.
        NoPublicSetError, NoDevicesError: there is nothing to score, or nobody to do it.
    """
    plan = make_plan(request)
    with store.writing() as session:
        open_id = session.scalar(select(RoundRow.round_id).where(RoundRow.state == "open"))
        if open_id is not None:
            raise RoundOpenError(f"round {open_id} is open; wait for it, or cancel it with DELETE /v1/rounds/{open_id}")
        public_set = current_version(session)
        if public_set is None:
            raise NoPublicSetError("there is no public set yet; publish one with `auricle-aggregator publish`")
        row = RoundRow(
            state="open",
            strategy=request.strategy,
            plan=asdict(plan),
            new_classes=request.new_classes,
            opened_at=now,
            deadline_at=now + plan.deadline_s,
            public_set=public_set.sha256,
            consensus=current_consensus(session),
            details={},
        )
        session.add(row)
        session.flush()
        _select(session, row, plan, now)
        return row.round_id


def _select(session: Session, row: RoundRow, plan: RoundPlan, now: float) -> None:
    """Draw the round's devices.

    Raises:
        NoDevicesError: none is enrolled, or none was heard of lately.
    """
    candidates, history = read_candidates(session, now), read_history(session, row.strategy)
    selected = select_devices(candidates, plan.selection, history, (plan.seed, row.round_id))
    if not candidates:
        raise NoDevicesError("no device is enrolled; start `auricle-edge run` on one first")
    if not selected:
        limit = plan.selection.settings["seen_within_s"]
        raise NoDevicesError(f"no device was heard of in the last {limit:g} s; raise the selection's seen_within_s")
    chosen = [{"round_id": row.round_id, "device_id": device_id, "metrics": {}} for device_id in selected]
    session.execute(insert(ParticipantRow), chosen)


def cancel_round(store: Store, round_id: int, now: float) -> None:
    """End an open round without a result.

    Raises:
        RoundNotFoundError: there is no such round.
        RoundClosedError: it is over already.
    """
    with store.writing() as session:
        row = require_round(session, round_id)
        if row.state != "open":
            raise RoundClosedError(f"round {round_id} is {row.state} already; only an open round can be cancelled")
        _fail(session, round_id, "cancelled by an administrator", now)


def advance(store: Store, now: float) -> int | None:
    """Move the open round as far as it goes now; return its number when that closed it.

    Any process may call it at any time and any number of times.
    """
    while True:
        with store.reading() as session:
            snapshot = read_open_round(session)
        if snapshot is None or not snapshot.complete(now):
            return None
        reason = snapshot.shortfall()
        result = None
        if reason is None:
            try:
                result = compute_result(store, snapshot)
            except (OSError, MemoryError):
                raise  # a full disk or memory says nothing about the round: whoever called tries again later
            except Exception as error:  # the same inputs would fail again for ever, so the round ends here
                _log.exception("round %d cannot be aggregated", snapshot.round_id)
                reason = f"{type(error).__name__}: {error}"
        with store.writing() as session:
            if read_open_round(session) != snapshot:
                continue
            if result is None:
                _fail(session, snapshot.round_id, str(reason), now)
            else:
                apply_result(session, snapshot.round_id, result, now)
        return snapshot.round_id


def next_deadline(store: Store) -> float | None:
    """Return when the open round closes at the latest, in seconds since 1970; None where no round is open."""
    with store.reading() as session:
        return session.scalar(select(RoundRow.deadline_at).where(RoundRow.state == "open"))


def _fail(session: Session, round_id: int, reason: str, now: float) -> None:
    changed = {"state": "failed", "reason": reason[:_REASON_LENGTH], "closed_at": now}
    session.execute(update(RoundRow).where(RoundRow.round_id == round_id).values(**changed))
