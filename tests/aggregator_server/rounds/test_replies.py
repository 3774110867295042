"""What the chart of the fleet's progress shows: means of what devices reported, and the number of classes."""

from aggregator_server.rounds.devices.work import acknowledge
from aggregator_server.rounds.replies import list_progress
from aggregator_server.strategies.plans import strategies
from aggregator_server.web.dashboard.rounds import list_choices
from fleet_protocol.messages.rest import Learned


def reported(fleet, round_id, *metrics):
    for device, values in zip(fleet.devices, metrics, strict=False):
        acknowledge(fleet.store, device.device_id, Learned(round_id, values))


def test_each_round_has_the_means_of_its_devices_and_its_classes(fleet):
    first = fleet.run_round(100.0, learn=False)
    reported(fleet, first, {"held_out_after": 60.0, "public_after": 80.0}, {"held_out_after": 70.0}, {}, {})
    second = fleet.run_round(200.0, learn=False)
    everything = {"held_out_accuracy": 50.0, "global_accuracy": 40.0}
    reported(fleet, second, everything | {"public_after": 99.0}, everything)  # most of them say which rows they mean
    found = list_progress(fleet.store, 10)
    assert [(row.round_id, row.own, row.public, row.devices, row.classes) for row in found] == [
        (first, 65.0, 80.0, 4, 6),  # four words, and the two sounds that devices reported
        (second, 50.0, 40.0, 2, 6),
    ]
    measures = [(row.own_measure, row.public_measure) for row in found]
    assert measures == [("held_out_after", "public_after"), ("held_out_accuracy", "global_accuracy")]
    assert [row.duration_s for row in found] == [2.0, 2.0]
    assert list_progress(fleet.store, 1) == found[1:]


def test_choices_say_what_a_round_costs_and_what_is_in_its_way(fleet):
    choices = {choice.name: choice for choice in list_choices(fleet.store)}
    assert set(choices) == set(strategies())
    assert all(choice.about and choice.cost for choice in choices.values())
    scores = choices["zero_shot"]
    assert (scores.is_recommended, scores.obstacle) == (True, None)
    assert "no embeddings" in choices["prototypes"].obstacle
    assert "publish-model" in choices["fedavg"].obstacle
    fleet.publish_model()
    assert {choice.name: choice for choice in list_choices(fleet.store)}["fedavg"].obstacle is None
