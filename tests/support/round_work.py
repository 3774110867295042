"""The work of a round, as the aggregator would send it."""

from edge_client.learning.methods.local_method import local_methods
from fleet_protocol.messages.rest import Choice, RoundPlan, Work
from fleet_protocol.methods.setting import complete


def work_of(method: str = "fedavg", round_id: int = 3, **settings) -> Work:
    """A device's work by a local method with some settings."""
    local = Choice(method, complete(method, local_methods()[method].settings, settings))
    plan = RoundPlan(
        local=local, aggregation=Choice("weighted_mean"), selection=Choice("all"), deadline_s=60.0, quorum=0.5, seed=0
    )
    return Work(kind="contribute", round_id=round_id, plan=plan, public_set="0" * 64, consensus=None, classes=())
