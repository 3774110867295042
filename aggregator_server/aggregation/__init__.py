"""Aggregation rules: pure functions from what devices uploaded to what the fleet knows."""

from aggregator_server.aggregation.rule import aggregate_weights
from aggregator_server.aggregation.updates import Layout, Updates, stack_updates

__all__ = ["Layout", "Updates", "aggregate_weights", "stack_updates"]
