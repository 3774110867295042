"""The page History: what was heard by hour and day, a day's events, exports of them, and how a period is removed."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from time import time
from typing import Any
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from edge_client.errors import ClipError
from edge_client.events.history import as_csv, as_json, begin_of, counts, day_of, every, names, newest, remarks
from edge_client.events.journal import Chosen
from edge_client.owner_changes import forget_heard
from edge_client.owner_page.device import OwnedDevice, answers
from edge_client.owner_page.pages import Pages, kind_of, number_of, read_form

# Days that are shown where nobody asks for others, rows of the chart at most, and events of a day on one page.
_DAYS, _MOST_DAYS, _EVENTS = 14, 35, 100
_SHADES = 4
_ONE_DAY = timedelta(days=1)
_FORMATS = {"csv": (as_csv, "text/csv; charset=utf-8"), "json": (as_json, "application/json")}


@dataclass(frozen=True)
class Wanted:
    """What a person asks to see: from the first day to the last one, of it a day and an hour, and which sounds."""

    first: date
    last: date
    day: date | None
    hour: int | None
    before: float | None
    label: str
    kind: str
    input: str
    least: int

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Wanted:
        """Read an address or a form. Raises ClipError if a part of it is nothing that could be wanted."""
        last = _day(query.get("to", "")) or day_of(time())
        first = _day(query.get("from", "")) or last - (_DAYS - 1) * _ONE_DAY
        if first > last:
            raise ClipError(f"the first day, {first}, is after the last one, {last}")
        hour = number_of(query["hour"]) if query.get("hour") else None
        least = number_of(query.get("least") or "0")
        if (hour or 0) > 23 or least > 100:
            raise ClipError("an hour is 0 to 23, a score 0 to 100 %")
        kind = kind_of(query["kind"]) if query.get("kind") else ""
        before = number_of(query["before"]) / 1e3 if query.get("before") else None
        label, heard_by = query.get("label", ""), query.get("input", "")
        return cls(first, last, _day(query.get("day", "")), hour, before, label, kind, heard_by, least)

    def chosen(self, first: date, last: date) -> Chosen:
        """Return the events of days that are asked for."""
        least = self.least / 100 or None
        period = begin_of(first), begin_of(last + _ONE_DAY)
        return Chosen(*period, self.label or None, self.kind or None, self.input or None, least)

    def address(self, **other: object) -> str:
        """Return the same question with other parts, as the query of an address."""
        parts = {"from": self.first, "to": self.last, "label": self.label, "kind": self.kind, "input": self.input}
        given = parts | {"least": self.least or ""} | other
        return urlencode({name: str(value) for name, value in given.items() if value not in (None, "")})


class HistoryPage:
    """What each address about past events answers."""

    def __init__(self, device: OwnedDevice, pages: Pages) -> None:
        self._device, self._pages = device, pages

    def routes(self) -> list[Route]:
        """Return the addresses."""
        return [
            Route("/history", self.show),
            *(Route(f"/history.{name}", functools.partial(self.export, name)) for name in _FORMATS),
            Route("/history/delete", self.delete, methods=["POST"]),
        ]

    def show(self, request: Request) -> Response:
        """Show the chart of a period, and the events of a day or an hour of it."""
        wanted, database = Wanted.of(request.query_params), self._device.state.database
        first = max(wanted.first, wanted.last - (_MOST_DAYS - 1) * _ONE_DAY)
        found = counts(database, wanted.chosen(first, wanted.last))
        day = wanted.day or max((one for one, _ in found), default=wanted.last)
        day = min(max(day, first), wanted.last)
        since, until = begin_of(day, wanted.hour or 0), begin_of(day, 24 if wanted.hour is None else wanted.hour + 1)
        chosen = replace(wanted.chosen(day, day), since=since, until=min(until, wanted.before or until))
        events = newest(database, chosen, _EVENTS)
        labels, inputs = names(database, begin_of(first), begin_of(wanted.last + _ONE_DAY))
        return self._pages.page(
            "history.html",
            wanted=wanted,
            chart=_chart(found, first, wanted.last),
            cut=first > wanted.first,
            day=day,
            total=sum(found.values()),
            heard=self._device.rows(events, remarks(database, day, events)),
            more=round(1e3 * events[-1].time) if len(events) == _EVENTS else None,
            heard_labels=labels,
            inputs=inputs,
            **answers(self._device.teaching()),
        )

    def export(self, form: str, request: Request) -> Response:
        """Return all that is asked for as a file."""
        wanted = Wanted.of(request.query_params)
        write, kind = _FORMATS[form]
        events = every(self._device.state.database, wanted.chosen(wanted.first, wanted.last))
        name = f"heard-{wanted.first}-{wanted.last}.{form}"
        lines: Iterator[str] = write(events)
        return StreamingResponse(
            lines, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'}
        )

    async def delete(self, request: Request) -> Response:
        """Remove what was heard on some days, or of it what was a label."""
        form = await read_form(request)
        if not (_day(form.get("from", "")) and _day(form.get("to", ""))):
            raise ClipError("say from which day to which one everything is to be deleted")
        wanted = Wanted.of(form)
        period = begin_of(wanted.first), begin_of(wanted.last + _ONE_DAY)
        removed = await run_in_threadpool(forget_heard, self._device.config, wanted.label or None, *period)
        return JSONResponse({"message": f"{removed} events were deleted, with the sounds that were kept of them."})


def _chart(found: Mapping[tuple[date, int], int], first: date, last: date) -> list[dict[str, Any]]:
    """Return the rows of the chart, the newest day first: of each hour how many, and how dark, 0 to :data:`_SHADES`."""
    most = max(found.values(), default=1)
    rows, day = [], last
    while day >= first:
        hours = [found.get((day, hour), 0) for hour in range(24)]
        # By the root, so that a quiet hour differs from an empty one beside a loud one.
        shades = [min(_SHADES, -int(-_SHADES * (count / most) ** 0.5 // 1)) for count in hours]
        rows.append({"day": day, "total": sum(hours), "hours": list(zip(hours, shades, strict=True))})
        day -= _ONE_DAY
    return rows


def _day(given: str) -> date | None:
    """Return a day written as 2026-01-31; None of nothing. Raises ClipError if it is none that can be."""
    if not given:
        return None
    try:
        found = date.fromisoformat(given)
    except ValueError:
        raise ClipError(f"{given[:100]!r} is no day; write it like 2026-01-31") from None
    if not 2000 <= found.year <= 9000:
        raise ClipError(f"{given} is no day of this device")
    return found
