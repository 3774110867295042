"""The strategies that an operator can choose from, and what is in the way of each."""

from dataclasses import dataclass

from aggregator_server.fleet.public_sets import current_version
from aggregator_server.fleet.shared_models import current_model
from aggregator_server.rounds.opening import fleet_kind
from aggregator_server.schemas import RoundRequest
from aggregator_server.store import Store
from aggregator_server.store.tables import ModelRow, PublicSetRow
from aggregator_server.strategies.registry import recommended, strategies
from aggregator_server.strategies.strategy import Strategy


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
