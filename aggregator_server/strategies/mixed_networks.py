"""A round that devices of two kinds take part in: some share a model's weights, the others scores of the public set.

The two kinds share what is independent of the network: the public set, its classes, and the new sounds that either kind
reports, which are recognised together. Weights are combined by the round's strategy, scores by that of the others.
"""

from dataclasses import replace

from aggregator_server.aggregation.contract import Contribution, RoundInputs, RoundResult
from aggregator_server.discovery.new_classes import extend
from aggregator_server.strategies.registry import strategy
from aggregator_server.strategies.strategy import Strategy
from fleet_protocol.messages import OtherNetworks


def aggregate(chosen: Strategy, inputs: RoundInputs) -> RoundResult:
    """Combine a round's uploads, those of other networks too (pure: the same inputs give the same result, bit for bit).

    Raises:
        AggregationError: the uploads cannot be combined.
    """
    result = chosen.aggregate(inputs)
    if inputs.plan.other_networks is None or not inputs.other_networks:
        return result
    scored = _scores(inputs, inputs.plan.other_networks)
    grown = result.public_set
    return replace(
        result,
        consensus=None if scored.consensus is None else extend(scored.consensus, len(grown.labels), len(grown.classes)),
        details=scored.details | result.details,
    )


def _scores(inputs: RoundInputs, others: OtherNetworks) -> RoundResult:
    """Return what the others' uploads come to on the public set as they scored it, apart from their new sounds."""
    alone = replace(
        inputs,
        plan=replace(inputs.plan, local=others.local, aggregation=others.aggregation, other_networks=None),
        contributions=tuple(map(_without_sounds, inputs.other_networks)),
        other_networks=(),
        model=None,
        state={},
    )
    return strategy(others.strategy).aggregate(alone)


def _without_sounds(contribution: Contribution) -> Contribution:
    return replace(contribution, update=replace(contribution.update, reports=(), known=()))
