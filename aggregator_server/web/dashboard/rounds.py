"""The pages of rounds: the list with its schedules, one round, and the form that opens the next."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from aggregator_server.errors import AggregatorError
from aggregator_server.rounds import lifecycle, schedules
from aggregator_server.rounds.views.choices import StrategyChoice, list_choices
from aggregator_server.rounds.views.replies import list_progress, list_rounds
from aggregator_server.schemas import RECOMMENDED, RoundRequest, ScheduleRequest
from aggregator_server.selection.draw import selections
from aggregator_server.strategies.registry import known_settings
from aggregator_server.strategies.registry import strategy as lookup
from aggregator_server.strategies.strategy import Strategy
from aggregator_server.undo.restoring import restore_round
from aggregator_server.web.dashboard.access import Form, Operator, OwnForm, Signed, as_number
from aggregator_server.web.dashboard.overview import PROGRESS
from aggregator_server.web.dashboard.rendering import PageRoute, render, to_page
from aggregator_server.web.dashboard.round_figures import open_round_view, plane_of_round, round_view
from aggregator_server.web.routes.access import CurrentService
from aggregator_server.web.routes.rounds import RoundId, ScheduleId
from aggregator_server.web.service import Service
from fleet_protocol.messages import Choice
from fleet_protocol.personalisations import personalisations
from fleet_protocol.setting import Setting, Value

_MINUTE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Field:
    """A setting as a field of the form.

    Attributes:
        kind: ``bool``, ``int``, ``float``, ``options`` or ``text``.
        main: Whether people most likely change it.
    """

    name: str
    label: str
    about: str
    kind: str
    value: str
    default: str
    low: str | None
    high: str | None
    options: tuple[str, ...]
    main: bool


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a strategy's local method: those that matter most, and the others."""

    main: tuple[Field, ...]
    others: tuple[Field, ...]


def settings_of(strategy: Strategy, form: Form | None = None) -> Settings:
    """Return the fields of a strategy's settings, with what a form said or else the defaults."""
    fields = tuple(_field(name, setting, form) for name, setting in known_settings("local")[strategy.local].items())
    main, others = (tuple(field for field in fields if field.main == main) for main in (True, False))
    return Settings(main=main, others=others)


def _field(name: str, setting: Setting, form: Form | None) -> Field:
    default = _text(setting.default)
    kind = "options" if setting.options else type(setting.default).__name__
    return Field(
        name=f"set_{name}",
        label=name,
        about=setting.about,
        kind=kind if kind in ("bool", "int", "float", "options") else "text",
        value=(form.text(f"set_{name}") if form else "") or default,
        default=default,
        low=None if setting.low is None else f"{setting.low:g}",
        high=None if setting.high is None else f"{setting.high:g}",
        options=("true", "false") if kind == "bool" else setting.options,
        main=setting.main,
    )


def request_of(form: Form, choices: tuple[StrategyChoice, ...]) -> RoundRequest:
    """Return the round that a form asks for.

    Args:
        form: Fields of the form: the strategy alone, which takes its defaults, or all settings.

    Raises:
        InvalidRequestError: a field cannot be read.
        RefusedError: there is no such strategy.
    """
    name, agreed = form.text("strategy"), bool(form.text("replace_model"))
    if not form.text("with_settings"):
        best = any(choice.is_recommended and choice.name == name for choice in choices)
        return RoundRequest(RECOMMENDED if best else lookup(name).name, replace_model=agreed)
    strategy = lookup(name)
    minutes, quorum = form.number("minutes", "the deadline"), form.number("quorum", "the quorum")
    defaults, aggregation = RoundRequest(), form.text("aggregation")
    return RoundRequest(
        strategy.name,
        settings=dict(_changed(strategy, form)),
        aggregation=Choice(aggregation) if aggregation and aggregation != strategy.aggregation else {},
        deadline_s=defaults.deadline_s if minutes is None else minutes * _MINUTE_S,
        quorum=defaults.quorum if quorum is None else quorum / 100.0,
        new_classes=form.whole("new_classes", "the number of new classes"),
        selection=_named(form.text("selection"), strategy.selection),
        personalisation=_named(form.text("personalisation"), strategy.personalisation),
        other_networks=Choice("zero_shot") if form.text("other_networks") else None,
        replace_model=agreed,
    )


def _named(name: str, default: str) -> Choice | None:
    return Choice(name) if name and name != default else None


def _changed(strategy: Strategy, form: Form) -> Iterator[tuple[str, Value]]:
    """Yield the settings whose fields do not hold the default."""
    for name, setting in known_settings("local")[strategy.local].items():
        text = form.text(f"set_{name}")
        if text and text != _text(setting.default):
            kind: Callable[[str], Value] = type(setting.default)
            called = f"{name} ({setting.about})"
            yield name, text == "true" if kind is bool else as_number(kind, text, called)


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


router = APIRouter(route_class=PageRoute, include_in_schema=False)
_PAGE = 30


@router.get("/rounds")
def show_rounds(
    request: Request,
    service: CurrentService,
    _visit: Signed,
    before: Annotated[int | None, Query(ge=1, lt=2**31)] = None,
) -> Response:
    """Show the rounds, newest first, and how good the fleet was after each."""
    found = list_rounds(service.store, before, _PAGE + 1)
    return render(
        request,
        "rounds.html",
        rounds=found[:_PAGE],
        older=found[_PAGE - 1].round_id if len(found) > _PAGE else None,
        current=open_round_view(service.store, time.time()),
        progress=list_progress(service.store, PROGRESS),
        schedules=schedules.list_schedules(service.store),
    )


@router.get("/rounds/new", dependencies=[Operator])
def show_form(request: Request, service: CurrentService, _visit: Signed, strategy: str = "") -> Response:
    """Show the strategies, or the settings of one of them."""
    return _form_page(request, service, strategy)


@router.post("/rounds", dependencies=[Operator])
def start_round(request: Request, service: CurrentService, visit: Signed, form: OwnForm) -> Response:
    """Open a round, or make a schedule; where that cannot be, show the form again, as it was, and why."""
    try:
        wanted = request_of(form, list_choices(service.store))
        scheduled = schedule_of(form, wanted)
        if scheduled is None:
            round_id = lifecycle.open_round(service.store, wanted, time.time(), visit.actor)
        else:
            schedules.add_schedule(service.store, scheduled, time.time(), visit.actor)
    except AggregatorError as error:
        return _form_page(request, service, form.text("strategy") if form.text("with_settings") else "", form, error)
    service.wake()
    return to_page(f"/rounds/{round_id}", "started") if scheduled is None else to_page("/rounds", "scheduled")


@router.get("/rounds/{round_id}")
def show_round(request: Request, service: CurrentService, _visit: Signed, round_id: RoundId) -> Response:
    """Show one round: who is in, who is late, what it found and how it was planned."""
    view = round_view(service.store, round_id, time.time())
    return render(request, "round.html", view=view, plane=plane_of_round(view))


@router.post("/rounds/{round_id}/cancel", dependencies=[Operator])
def cancel(service: CurrentService, visit: Signed, _form: OwnForm, round_id: RoundId) -> Response:
    """End an open round without a result."""
    lifecycle.cancel_round(service.store, round_id, time.time(), visit.actor)
    service.wake()  # a schedule may have waited for its end
    return to_page(f"/rounds/{round_id}", "cancelled")


@router.post("/rounds/{round_id}/restore", dependencies=[Operator])
def restore(service: CurrentService, visit: Signed, _form: OwnForm, round_id: RoundId) -> RedirectResponse:
    """Bring back the fleet's state after a round."""
    restored = restore_round(service.store, round_id, time.time(), visit.actor)
    service.wake()
    return to_page(f"/rounds/{restored}", "restored")


def _form_page(
    request: Request, service: Service, name: str, form: Form | None = None, error: AggregatorError | None = None
) -> Response:
    choices = list_choices(service.store)
    if not name:
        chosen = form.text("strategy") if form else ""
        return render(request, "round_choose.html", error=error, choices=choices, chosen=chosen, form=form)
    strategy = lookup(name)
    choice = next(choice for choice in choices if choice.name == strategy.name)
    return render(
        request,
        "round_settings.html",
        error=error,
        strategy=strategy,
        choice=choice,
        settings=settings_of(strategy, form),
        selections=selections(),
        personalisations=personalisations(),
        defaults=RoundRequest(),
        form=form,
    )


_HOUR_S = 3_600.0


def schedule_of(form: Form, wanted: RoundRequest) -> ScheduleRequest | None:
    """Return the schedule that a form asks for; None where it asks for one round now.

    Raises:
        InvalidRequestError: a field cannot be read.
    """
    when = form.text("when")
    hours = form.number("interval_hours", "the hours between two rounds")
    if when == "daily":
        return ScheduleRequest(round=wanted, daily_at=form.text("daily_at"), zone=form.text("zone") or None)
    return ScheduleRequest(round=wanted, interval_s=(hours or 0.0) * _HOUR_S) if when == "interval" else None


@router.post("/schedules/{schedule_id}/end", dependencies=[Operator])
def end(service: CurrentService, visit: Signed, _form: OwnForm, schedule_id: ScheduleId) -> Response:
    """Open no more rounds by a schedule."""
    schedules.end_schedule(service.store, schedule_id, time.time(), visit.actor)
    service.wake()
    return to_page("/rounds", "schedule-ended")
