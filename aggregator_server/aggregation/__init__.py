"""Aggregation rules: pure functions from what devices uploaded to what the fleet knows, one file each."""

from aggregator_server.aggregation.updates import Layout, Updates, stack_updates
from aggregator_server.aggregation.weights import aggregate_weights

__all__ = ["Layout", "Updates", "aggregate_weights", "stack_updates"]
