"""The pages of rounds: the list, one round, and the form that opens the next."""

import time
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from aggregator_server.errors import AggregatorError
from aggregator_server.fleet.health import find_away
from aggregator_server.fleet.publications import current_model, current_version
from aggregator_server.operator_changes.restore_and_undo import restore_round
from aggregator_server.rounds.lifecycle import cancel_round
from aggregator_server.rounds.opening import fleet_kind, open_round
from aggregator_server.rounds.replies import list_progress, list_rounds
from aggregator_server.schemas import RECOMMENDED, PrivateRequest, RoundRequest
from aggregator_server.store.store import Store
from aggregator_server.store.tables import ModelRow, PublicSetRow
from aggregator_server.strategies.plans import recommended, strategies
from aggregator_server.strategies.plans import strategy as lookup
from aggregator_server.strategies.strategy import Strategy
from aggregator_server.web.dashboard.access import Form, Operator, OwnForm, Signed
from aggregator_server.web.dashboard.overview import PROGRESS
from aggregator_server.web.dashboard.rendering import PageRoute, render, to_page
from aggregator_server.web.dashboard.round_figures import new_sounds_of, open_round_view, round_view
from aggregator_server.web.routes.access import CurrentService
from aggregator_server.web.routes.rounds import RoundId
from aggregator_server.web.service import Service

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_PAGE = 30


@dataclass(frozen=True, kw_only=True)
class StrategyChoice:
    """A strategy as a choice for the next round; ``obstacle``: why none by it can be opened, None where one can."""

    name: str
    about: str
    cost: str
    is_recommended: bool
    obstacle: str | None


def list_choices(store: Store) -> tuple[StrategyChoice, ...]:
    """Return every strategy, the recommended one first, then those that this fleet can follow."""
    with store.reading() as session:
        best = recommended(RoundRequest(), fleet_kind(session)).strategy
        public_set, model = current_version(session), current_model(session)
        found = [
            StrategyChoice(
                name=strategy.name,
                about=strategy.about,
                cost=strategy.cost,
                is_recommended=strategy.name == best,
                obstacle=_obstacle(strategy, public_set, model),
            )
            for strategy in strategies().values()
        ]
    return tuple(sorted(found, key=lambda choice: (not choice.is_recommended, choice.obstacle or "", choice.name)))


def _obstacle(strategy: Strategy, public_set: PublicSetRow | None, model: ModelRow | None) -> str | None:
    if public_set is None:
        return "There is no public set yet (auricle-aggregator publish)."
    if strategy.needs_embeddings and not public_set.settings.is_embedding:
        return "The fleet's features are no embeddings of a pretrained front end."
    if strategy.shares_model and model is None:
        return "There is no shared model yet (auricle-aggregator publish-model)."
    return None


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
    )


@router.get("/rounds/new", dependencies=[Operator])
def show_form(request: Request, service: CurrentService, _visit: Signed) -> Response:
    """Show the strategies."""
    return _form_page(request, service)


@router.post("/rounds", dependencies=[Operator])
def start_round(request: Request, service: CurrentService, visit: Signed, form: OwnForm) -> Response:
    """Open a round; where that cannot be, show the form again, as it was, and why."""
    try:
        round_id = open_round(service.store, _request_of(form, service), time.time(), visit.actor)
    except AggregatorError as error:
        return _form_page(request, service, form, error)
    service.wake()
    return to_page(f"/rounds/{round_id}", "started")


@router.get("/rounds/{round_id}")
def show_round(request: Request, service: CurrentService, _visit: Signed, round_id: RoundId) -> Response:
    """Show one round: who is in, who is late, what it found and how it was planned."""
    view = round_view(service.store, round_id, time.time())
    return render(request, "round.html", view=view, found=new_sounds_of(view.detail))


@router.post("/rounds/{round_id}/cancel", dependencies=[Operator])
def cancel(service: CurrentService, visit: Signed, _form: OwnForm, round_id: RoundId) -> Response:
    """End an open round without a result."""
    cancel_round(service.store, round_id, time.time(), visit.actor)
    service.wake()
    return to_page(f"/rounds/{round_id}", "cancelled")


@router.post("/rounds/{round_id}/restore", dependencies=[Operator])
def restore(service: CurrentService, visit: Signed, _form: OwnForm, round_id: RoundId) -> RedirectResponse:
    """Bring back the fleet's state after a round."""
    restored = restore_round(service.store, round_id, time.time(), visit.actor)
    service.wake()
    return to_page(f"/rounds/{restored}", "restored")


def _form_page(
    request: Request, service: Service, form: Form | None = None, error: AggregatorError | None = None
) -> Response:
    chosen = form.text("strategy") if form else ""
    choices = list_choices(service.store)
    with service.store.reading() as session:
        away = find_away(session, time.time())
    return render(
        request,
        "round_choose.html",
        error=error,
        choices=choices,
        chosen=chosen,
        form=form,
        away=away,
        private=sorted(name for name, other in strategies().items() if other.private is not None),
        group_size=PrivateRequest().groups,
    )


def _request_of(form: Form, service: Service) -> RoundRequest:
    """Return the round that a form asks for.

    Raises RefusedError: there is no such strategy. InvalidRequestError: a field is no number.
    """
    name = form.text("strategy")
    best = any(choice.is_recommended and choice.name == name for choice in list_choices(service.store))
    private = None
    if form.text("private"):
        groups = form.number(int, "groups", "devices of a group")
        epsilon = form.number(float, "epsilon", "epsilon")
        private = PrivateRequest(PrivateRequest().groups if groups is None else groups, epsilon)
    return RoundRequest(RECOMMENDED if best else lookup(name).name, private=private)
