"""The strategies that an operator can choose from, and what a round by each costs this fleet."""

import math
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from aggregator_server.fleet.classes import all_classes
from aggregator_server.fleet.public_sets import current_version
from aggregator_server.fleet.shared_models import current_model
from aggregator_server.rounds.opening import are_embeddings, fleet_kind
from aggregator_server.rounds.queries import COUNTS, OF_FLEET, WITH_DEVICES
from aggregator_server.schemas import RoundRequest
from aggregator_server.store import Store
from aggregator_server.store.tables import ModelRow, PublicSetRow, RoundRow
from aggregator_server.strategies.registry import recommended, strategies
from aggregator_server.strategies.strategy import Strategy
from fleet_protocol.feature_settings import FeatureSettings

_NUMBER_BYTES = 4  # of a float32


@dataclass(frozen=True, kw_only=True)
class StrategyChoice:
    """A strategy, as a choice for the next round.

    Attributes:
        upload_bytes: Bytes that a device sends, about; None where it is not known yet.
        last_s: Seconds that the last round by it took; None where there was none.
        obstacle: Reason why no round by it can be opened; None where one can.
    """

    name: str
    about: str
    cost: str
    is_recommended: bool
    upload_bytes: int | None
    last_s: float | None
    obstacle: str | None


def list_choices(store: Store) -> tuple[StrategyChoice, ...]:
    """Return every strategy, the recommended one first, then those that this fleet can follow.

    Raises:
        PluginError: an installed package's strategy cannot be used.
    """
    with store.reading() as session:
        best = recommended(RoundRequest(), fleet_kind(session)).strategy
        public_set, model, classes = current_version(session), current_model(session), len(all_classes(session))
        found = [
            StrategyChoice(
                name=strategy.name,
                about=strategy.about,
                cost=strategy.cost,
                is_recommended=strategy.name == best,
                upload_bytes=_upload_bytes(strategy, public_set, model, classes),
                last_s=_last_duration(session, strategy.name),
                obstacle=_obstacle(strategy, public_set, model),
            )
            for strategy in strategies().values()
        ]
    return tuple(sorted(found, key=lambda choice: (not choice.is_recommended, choice.obstacle or "", choice.name)))


def _upload_bytes(
    strategy: Strategy, public_set: PublicSetRow | None, model: ModelRow | None, classes: int
) -> int | None:
    """Return about how many bytes a device sends, without descriptions of new sounds."""
    if strategy.shares_model:
        return None if model is None else _NUMBER_BYTES * model.parameters
    if public_set is None:
        return None
    if strategy.needs_embeddings:
        return _NUMBER_BYTES * classes * math.prod(FeatureSettings.from_json(public_set.features).shape)
    return _NUMBER_BYTES * public_set.samples * classes if strategy.name == "zero_shot" else None


def _obstacle(strategy: Strategy, public_set: PublicSetRow | None, model: ModelRow | None) -> str | None:
    if public_set is None:
        return "There is no public set yet (auricle-aggregator publish)."
    if strategy.needs_embeddings and not are_embeddings(public_set):
        return "The fleet's features are no embeddings of a pretrained front end."
    if strategy.shares_model and model is None:
        return "There is no shared model yet (auricle-aggregator publish-model)."
    return None


def _last_duration(session: Session, strategy: str) -> float | None:
    trained = (COUNTS, OF_FLEET, WITH_DEVICES, RoundRow.strategy == strategy)
    last = select(RoundRow.closed_at - RoundRow.opened_at).where(*trained)
    return session.scalar(last.order_by(RoundRow.round_id.desc()).limit(1))
