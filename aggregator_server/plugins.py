"""The front door for extensions: all that a rule, a selection or a strategy of another package needs.

docs/writing-a-strategy.md uses it. What stands here keeps its name and meaning within a major version.
"""

from aggregator_server.aggregation.contract import (
    Assigned,
    Contribution,
    RoundInputs,
    RoundResult,
    SharedModel,
    UploadTerms,
)
from aggregator_server.aggregation.rule import Rule
from aggregator_server.aggregation.updates import Layout, Updates
from aggregator_server.aggregation.weighted_mean import weighted_mean
from aggregator_server.errors import AggregationError, MalformedUpdateError
from aggregator_server.strategies.selection import FRACTION, SEEN_WITHIN, Candidate, History, Selection
from aggregator_server.strategies.strategy import DeviceStatistics, Strategy, sharing
from aggregator_server.strategies.weight_sharing import aggregate as aggregate_shared_model
from aggregator_server.strategies.weight_sharing import check as check_shared_model
from fleet_protocol.messages.rest import Choice, Update
from fleet_protocol.methods.setting import Setting, Value
from fleet_protocol.numbers.arrays import Doubles, Floats
from fleet_protocol.numbers.tensors import Arrays

__all__ = [
    "FRACTION",
    "SEEN_WITHIN",
    "AggregationError",
    "Arrays",
    "Assigned",
    "Candidate",
    "Choice",
    "Contribution",
    "DeviceStatistics",
    "Doubles",
    "Floats",
    "History",
    "Layout",
    "MalformedUpdateError",
    "RoundInputs",
    "RoundResult",
    "Rule",
    "Selection",
    "Setting",
    "SharedModel",
    "Strategy",
    "Update",
    "Updates",
    "UploadTerms",
    "Value",
    "aggregate_shared_model",
    "check_shared_model",
    "sharing",
    "weighted_mean",
]
