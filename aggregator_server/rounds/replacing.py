"""Asks whether a round may replace the models that devices have of their own."""

from __future__ import annotations

from sqlalchemy.orm import Session

from aggregator_server.errors import ModelReplacedError
from aggregator_server.fleet.classes import all_classes
from aggregator_server.rounds.queries import OF_FLEET, WITH_DEVICES, newest_done
from aggregator_server.strategies.plan_methods import local_methods
from aggregator_server.strategies.registry import strategies
from aggregator_server.strategies.strategy import Strategy


def require_agreement(session: Session, how: Strategy, *, agreed: bool) -> None:
    """Check that a round replaces no models unasked.

    Where the fleet's last round left every device with a model of its own, the result of a round that shares weights
    takes its place: the device then listens for all classes of the fleet, and accuracies are among all of them.

    Args:
        session: of the opening.
        how: strategy of the round.
        agreed: whether the request says that models may be replaced.

    Raises:
        ModelReplacedError: it replaces models, and the request does not say so.
    """
    if agreed or not _replaces_models(how):
        return
    last = newest_done(session, OF_FLEET, WITH_DEVICES)
    before = None if last is None else strategies().get(last.strategy)
    if last is None or before is None or _replaces_models(before):
        return
    raise ModelReplacedError(
        f"since round {last.round_id} ({last.strategy}) every device has a model of its own. A round of {how.name!r} "
        "replaces the models of all devices that have the shared model's network: they then listen for all "
        f"{len(all_classes(session))} classes of the fleet, and accuracies are among all of these. If that is meant, "
        'send "replace_model": true (`auricle-aggregator round start --replace-model`)'
    )


def _replaces_models(how: Strategy) -> bool:
    """Tell whether devices that have the shared model's network take over its weights after a round."""
    return how.shares_model and not getattr(local_methods().get(how.local), "any_architecture", False)
