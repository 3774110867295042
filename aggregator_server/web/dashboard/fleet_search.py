"""Finds the devices that the page of the fleet lists: with the same bounds however many there are.

Where at most ``EXACT`` devices can be meant, all of these are looked at, and the list is exact: its count, its order,
a word anywhere in a name. Beyond, a page follows an index in its order from where the page before ended, and looks at
``WALK`` devices at most. Every device that was there all the time then stands on exactly one page.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, String, and_, false, func, literal, or_, select, true
from sqlalchemy.orm import Session

from aggregator_server.fleet.devices import find_devices
from aggregator_server.fleet.health import (
    HEALTH,
    PROGRAMS,
    SEEN_S,
    count_devices,
    health_of,
    is_outdated_one,
    programs,
    word_for,
)
from aggregator_server.fleet.reputation import QUARANTINED, SUSPECTED
from aggregator_server.fleet.versions import numbers_of
from aggregator_server.store import Tables
from aggregator_server.store.expressions import batches, begins_with, folded, program_of
from aggregator_server.store.tables import IS_ACTIVE, DeviceRow, ReputationRow
from aggregator_server.web.dashboard.fleet_list import PAGE, Listed, Place, Wanted

EXACT = 2_000  # devices
WALK = 4_000  # devices
_FIRST = 500  # devices

_id: ColumnElement[str] = DeviceRow.device_id.expression
_name: ColumnElement[str] = folded(DeviceRow.name)
_network: ColumnElement[str] = folded(DeviceRow.architecture)
_program: ColumnElement[str] = program_of(DeviceRow.versions)
_seen_at: ColumnElement[float] = DeviceRow.seen_at.expression
_ALL = true()
_PRESENT = DeviceRow.revoked_at.is_(None)
_OF_IDENTIFIER = re.compile("[0-9a-fA-F]{4,32}")


@dataclass(frozen=True, kw_only=True)
class Found:
    """A page of the devices that are looked for.

    Attributes:
        count: Number of devices on all pages; None: more than ``EXACT``.
        next: Page that follows; None: this is the last one.
        searched_all: Whether the page is full or the last; otherwise the search goes on where it stopped.
    """

    devices: tuple[Listed, ...]
    count: int | None
    next: Wanted | None
    searched_all: bool = True


@dataclass(frozen=True)
class _Segment:
    """Devices that stand one after the other in an order, and that an index has in it.

    Attributes:
        label: Text that names it among those of the order.
        meets: Condition that the index answers.
        key: What its devices are ordered by, before their identifiers; None: by these alone.
        besides: Condition that is looked at device by device.
    """

    label: str
    meets: ColumnElement[bool]
    key: ColumnElement[Any] | None
    besides: ColumnElement[bool] = _ALL


def search(tables: Tables, wanted: Wanted, now: float) -> Found:
    """Return the page that is wanted."""
    with tables.reading() as session:
        few = _few(session, wanted, now)
        if few is None:
            return _walk(session, wanted, now)
        ids = _sorted(session, *few, wanted, now)
        end = PAGE * wanted.page
        return Found(
            devices=_shown(session, ids[end - PAGE : end], now),
            count=len(ids),
            next=wanted.on_page(wanted.page + 1) if len(ids) > end else None,
        )


def pages(tables: Tables, wanted: Wanted) -> Iterator[tuple[Listed, ...]]:
    """Yield all pages of what is wanted, one after the other; each is read when it is asked for."""
    following: Wanted | None = wanted.on_page(1)
    while following is not None:
        found = search(tables, following, time.time())
        yield found.devices
        following = found.next


def _shown(session: Session, ids: Sequence[str], now: float) -> tuple[Listed, ...]:
    return tuple((device, health_of(device, now)) for device in find_devices(session, ids))


# Few devices: all of them are looked at.


def _few(session: Session, wanted: Wanted, now: float) -> tuple[Sequence[str], bool] | None:
    """Return (the identifiers of the devices that can be meant, whether a word may stand anywhere in their texts).

    None: there are too many.
    """
    for condition in (true(), *_narrow(session, wanted, now)):
        ids = _at_most(session, condition)
        if ids is not None:
            return ids, True
    ids = _begin_with(session, wanted.search) if wanted.search else None
    return None if ids is None else (ids, False)


def _at_most(session: Session, condition: ColumnElement[bool]) -> Sequence[str] | None:
    ids = session.scalars(select(_id).where(condition).limit(EXACT + 1)).all()
    return None if len(ids) > EXACT else ids


def _begin_with(session: Session, word: str) -> Sequence[str] | None:
    found: set[str] = set()
    for condition in _beginnings(session, word):
        ids = _at_most(session, condition)
        if ids is None:
            return None
        found.update(ids)
    return None if len(found) > EXACT else sorted(found)


def _beginnings(session: Session, word: str) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions that a name begins with a word, and an identifier, each of which an index answers."""
    folds = session.execute(select(folded(literal(word)), folded(literal(word.lower())))).one()
    yield or_(*(begins_with(_name, text) for text in sorted(set(folds))))
    if _OF_IDENTIFIER.fullmatch(word):
        yield begins_with(_id, word.lower())


def _narrow(session: Session, wanted: Wanted, now: float) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions of what is wanted that indices answer; a word is not among them."""
    if wanted.group:
        yield DeviceRow.group_name == wanted.group
    if wanted.network:
        yield _network == folded(literal(wanted.network))
    if wanted.version:
        yield _program == wanted.version
    if wanted.state == "online":
        yield _PRESENT & (_seen_at >= now - SEEN_S)
    elif wanted.state == "outdated":
        yield _PRESENT & is_outdated_one(session, now)
    elif wanted.state:
        segment = _of_health(now)[wanted.state]
        yield segment.meets & segment.besides


def _sorted(session: Session, ids: Sequence[str], anywhere: bool, wanted: Wanted, now: float) -> list[str]:
    """Return those of some devices that are wanted, in order; equal ones by name."""
    word = wanted.search.casefold()
    outdated = is_outdated_one(session, now) if wanted.state == "outdated" else false()
    rows = [row for batch in batches(ids) for row in session.execute(_looked_at(batch, wanted, outdated))]
    fitting = [
        (row, health)
        for row in rows
        if word in _words(row, word, anywhere=anywhere)
        and (_is_in(row, health := _health(row, now), wanted.state, now))
    ]
    fitting.sort(key=lambda item: (item[0].name.casefold(), item[0].device_id))
    fitting.sort(key=lambda item: _key(wanted.sort, *item), reverse=wanted.down)
    return [row.device_id for row, _ in fitting]


def _looked_at(ids: Sequence[str], wanted: Wanted, outdated: ColumnElement[bool]) -> Any:  # noqa: ANN401  (a select)
    conditions: list[ColumnElement[bool]] = [_id.in_(ids)]
    if wanted.group:
        conditions.append(DeviceRow.group_name == wanted.group)
    if wanted.network:
        conditions.append(_network == folded(literal(wanted.network)))
    if wanted.version:
        conditions.append(_program == wanted.version)
    labels = DeviceRow.labels if wanted.search else literal(None)
    return (
        select(
            *(_id, DeviceRow.name, DeviceRow.group_name, DeviceRow.architecture, _program.label("program")),
            *(DeviceRow.seen_at, DeviceRow.revoked_at, DeviceRow.waiting, DeviceRow.trouble, DeviceRow.clips),
            *(
                ReputationRow.quarantined_at,
                ReputationRow.suspicion,
                labels.label("labels"),
                outdated.label("outdated"),
            ),
        )
        .outerjoin(ReputationRow, ReputationRow.device_id == _id)
        .where(*conditions)
    )


def _health(row: Any, now: float) -> str:  # noqa: ANN401  (a row of _looked_at)
    return word_for(
        revoked=row.revoked_at is not None,
        waiting=row.waiting,
        quarantine=row.quarantined_at is not None,
        trouble=bool(row.trouble),
        silent=now - row.seen_at > SEEN_S,
        suspicious=bool(row.suspicion),
    )


def _is_in(row: Any, health: str, state: str, now: float) -> bool:  # noqa: ANN401  (a row of _looked_at)
    if state == "online":
        return health != "revoked" and now - row.seen_at <= SEEN_S
    if state == "outdated":
        return health != "revoked" and bool(row.outdated)
    return not state or health == state


def _words(row: Any, word: str, *, anywhere: bool) -> str:  # noqa: ANN401  (a row of _looked_at)
    """Return what a device is found by; where a word's beginning found it, the word itself."""
    if not word or not anywhere:
        return word
    said = (row.name, row.device_id, row.group_name or "", row.architecture, row.program or "", *row.labels)
    return "\n".join(said).casefold()


def _key(sort: str, row: Any, health: str) -> Any:  # noqa: ANN401  (a row of _looked_at, anything that is ordered)
    keys = {"health": HEALTH.index(health), "seen": row.seen_at, "clips": row.clips}
    if sort in keys:
        return keys[sort]
    if sort == "version":
        return numbers_of(row.program or "")
    return row.architecture.casefold() if sort == "network" else row.name.casefold()


# Many devices: a page follows an index.


def _walk(session: Session, wanted: Wanted, now: float) -> Found:
    besides = list(_narrow(session, wanted, now))
    named = next(_beginnings(session, wanted.search)) if wanted.search else true()
    if wanted.search and wanted.sort != "name":
        besides.append(named)
    segments = _segments(session, wanted, now, named)
    if wanted.down:
        segments.reverse()
    place, left, found = wanted.after, WALK, list[Place]()
    if place is not None:
        begin = next((at for at, segment in enumerate(segments) if _is_in_segment(place, segment)), None)
        if begin is None:  # of another order, or invented
            place, begin = None, 0
        segments = segments[begin:]
    for segment in segments:
        for step in _steps(segment, place if place is not None and place.label == segment.label else None, wanted.down):
            more, last, looked = _read(session, step, besides, wanted.down, PAGE + 1 - len(found), left)
            found += more
            left -= looked
            if len(found) > PAGE:
                return _part(session, wanted, found[:PAGE], found[PAGE - 1], now, whole=True)
            if last is not None:
                return _part(session, wanted, found, last, now, whole=False)
    return _part(session, wanted, found, None, now, whole=True)


def _is_in_segment(place: Place, segment: _Segment) -> bool:
    if place.label != segment.label or (segment.key is None) != (place.key is None):
        return False
    return segment.key is None or isinstance(segment.key.type, String) == isinstance(place.key, str)


def _part(
    session: Session, wanted: Wanted, found: Sequence[Place], last: Place | None, now: float, *, whole: bool
) -> Found:
    return Found(
        devices=_shown(session, [place.device_id for place in found], now),
        count=None if wanted.filtered else count_devices(session, true()),
        next=None if last is None else wanted.behind(last),
        searched_all=whole,
    )


def _steps(segment: _Segment, place: Place | None, down: bool) -> Iterator[_Segment]:
    """Yield a segment from a place on: the rest of the devices with its key, then those behind; an index has each."""
    if place is None:
        yield segment
        return
    behind = _id < place.device_id if down else _id > place.device_id
    if segment.key is None:
        yield _Segment(segment.label, segment.meets & behind, None, segment.besides)
        return
    yield _Segment(segment.label, segment.meets & (segment.key == place.key) & behind, segment.key, segment.besides)
    later = segment.key < place.key if down else segment.key > place.key
    yield _Segment(segment.label, segment.meets & later, segment.key, segment.besides)


def _read(
    session: Session, step: _Segment, besides: Sequence[ColumnElement[bool]], down: bool, count: int, most: int
) -> tuple[list[Place], Place | None, int]:
    """Return (the first devices of a step that are wanted, the last that was looked at, how many were).

    The second is None where there are no more devices in the step.
    """
    by: list[ColumnElement[Any]] = [_id] if step.key is None else [step.key, _id]
    order = [item.desc() if down else item for item in by]
    key = literal(None) if step.key is None else step.key
    # As a column, what is wanted besides cannot have the database take another index than that of the order.
    fits = and_(step.besides, *besides).label("fits")
    inner = select(key.label("key"), _id.label("device_id"), fits).where(step.meets).order_by(*order)
    all_wanted = not besides and step.besides is _ALL
    rows: Sequence[Any] = ()
    # Mostly the first few have enough of what is wanted.
    for span in (count,) if all_wanted else (min(_FIRST, most), most):
        looked = inner.limit(span).subquery()
        by = [looked.c.device_id] if step.key is None else [looked.c.key, looked.c.device_id]
        wanted = select(looked.c.key, looked.c.device_id).where(looked.c.fits)
        rows = session.execute(wanted.order_by(*(item.desc() if down else item for item in by)).limit(count)).all()
        if len(rows) == count:
            break
    places = [Place(step.label, row.key, row.device_id) for row in rows]
    if all_wanted or len(places) == count:
        return places, None, 0
    last = session.execute(
        select(key.label("key"), _id).where(step.meets).order_by(*order).limit(1).offset(most - 1)
    ).first()
    if last is not None:
        return places, Place(step.label, last.key, last.device_id), most
    places_only = select(_id).where(step.meets).limit(most).subquery()
    return places, None, session.scalar(select(func.count()).select_from(places_only)) or 0


def _segments(session: Session, wanted: Wanted, now: float, named: ColumnElement[bool]) -> list[_Segment]:
    """Return the segments of an order, the first first; ``named``: which devices are wanted by their names."""
    if wanted.sort == "health":
        found = _of_health(now)
        return [found[word] for word in HEALTH if wanted.state in ("", word, "online", "outdated")]
    if wanted.sort == "version":
        return _of_versions(session)
    keys: dict[str, ColumnElement[Any]] = {
        "name": _name,
        "seen": _seen_at,
        "network": _network,
        "clips": DeviceRow.clips.expression,
    }
    return [_Segment(wanted.sort, named if wanted.sort == "name" else true(), keys[wanted.sort])]


def _of_health(now: float) -> dict[str, _Segment]:
    seen = _seen_at >= now - SEEN_S
    trusted, calm = _id.not_in(QUARANTINED), DeviceRow.trouble.is_(None)
    by = _seen_at
    segments = (
        _Segment("waiting", DeviceRow.waiting.is_(True) & _PRESENT, by),
        _Segment("quarantine", _id.in_(QUARANTINED), None, IS_ACTIVE),
        _Segment("trouble", DeviceRow.trouble.is_not(None), by, IS_ACTIVE & trusted),
        _Segment("suspicious", _id.in_(SUSPECTED), None, IS_ACTIVE & trusted & calm & seen),
        _Segment("silent", _seen_at < now - SEEN_S, by, IS_ACTIVE & trusted & calm),
        _Segment("well", seen, by, IS_ACTIVE & trusted & calm & _id.not_in(SUSPECTED)),
        _Segment("revoked", DeviceRow.revoked_at.is_not(None), DeviceRow.revoked_at.expression),
    )
    return {segment.label: segment for segment in segments}


def _of_versions(session: Session) -> list[_Segment]:
    said = programs(session)
    found = [_Segment("not said", _program.is_(None), None)]
    found += [_Segment(f"is {text}", _program == text, None) for text in sorted(said, key=numbers_of)]
    if len(said) == PROGRAMS:  # devices say them, so there may be any number
        found.append(_Segment("others", _program > said[-1], _program))
    return found
