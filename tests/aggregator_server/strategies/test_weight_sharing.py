"""What a round of a shared model leads to, on the aggregator's core without HTTP."""

import dataclasses

import numpy as np
import pytest

from aggregator_server.aggregation.contract import Contribution, UploadTerms
from aggregator_server.errors import MalformedUpdateError
from aggregator_server.rounds.publishing import describe_model
from aggregator_server.rounds.replies import describe_round
from aggregator_server.schemas import RoundRequest
from aggregator_server.store.tables import RoundRow
from aggregator_server.strategies.plans import complete, strategies
from aggregator_server.strategies.sharing import adaptive_local_training
from aggregator_server.strategies.strategy import DeviceStatistics
from aggregator_server.strategies.weight_sharing import aggregate, check
from fleet_protocol.messages.rest import Choice, ClassReport
from fleet_protocol.numbers.tensors import unpack
from tests.support.aggregator_process import SETTINGS, SharingDevice, tiny_bundle
from tests.support.core_fleet import CoreFleet, devices, quiet, refusal
from tests.support.round_inputs import BUNDLE, PUBLIC, WORK, contribution, inputs

TERMS = UploadTerms("0" * 64, 24, PUBLIC.class_ids, SETTINGS, BUNDLE.manifest)
SHARING = [name for name, strategy in strategies().items() if strategy.shares_model]


def combined(uploads, strategy="fedavg", **request):
    return aggregate(inputs(RoundRequest(strategy, **request), uploads))


def test_what_a_screened_device_says_of_a_new_class_does_not_count():
    given = [contribution(device) for device in devices(4, SharingDevice)]
    far = {name: array * np.float32(1e5) for name, array in given[1].read().items() if name.startswith("weights/")}
    liar = Contribution(given[1].update, lambda: given[1].read() | far)
    result = combined([given[0], liar, *given[2:]])
    assert liar.update.device_id in result.details["aggregation"]["screened"]
    assert [(a.slot, a.class_id) for a in result.assignments] == [(2, "c4"), (2, "c4"), (2, "c5")]
    own = given[0].read()["weights/head/kernel"][:, 4]
    np.testing.assert_allclose(result.weights["head/kernel"][:, 4], own, rtol=1e-5)
    assert max(np.abs(array).max() for array in result.weights.values()) < 10


def test_the_weights_are_averaged_by_clips_and_unused_slots_stay():
    given = [contribution(SharingDevice(n, ("c0", "c1")), clips=clips) for n, clips in ((1, 10), (2, 30))]
    result = combined(given, aggregation=Choice("weighted_mean", {}))
    first, second = (item.read() for item in given)
    expected = 0.25 * first["weights/body/kernel"] + 0.75 * second["weights/body/kernel"]
    np.testing.assert_allclose(result.weights["body/kernel"], expected, rtol=1e-6)
    expected = 0.25 * first["weights/head/kernel"] + 0.75 * second["weights/head/kernel"]
    np.testing.assert_allclose(result.weights["head/kernel"][:, :4], expected[:, :4], rtol=1e-5)
    np.testing.assert_allclose(result.weights["head/kernel"][:, 4:], BUNDLE.weights["head/kernel"][:, 4:], rtol=1e-6)
    assert result.consensus is None
    assert result.state == {}


def test_a_new_class_starts_with_the_columns_of_those_who_reported_it():
    given = [contribution(device) for device in devices(4, SharingDevice)]
    result = combined(given)
    assert [(a.slot, a.class_id) for a in result.assignments] == [(2, "c4"), (2, "c4"), (2, "c5")]
    own = [item.read()["weights/head/kernel"][:, 4] for item in given]  # behind the four classes, as reported
    np.testing.assert_allclose(result.weights["head/kernel"][:, 4], (own[0] + own[1]) / 2, rtol=1e-5)
    np.testing.assert_array_equal(result.weights["head/kernel"][:, 5], own[2])
    assert result.public_set.class_ids == ("c0", "c1", "c2", "c3", "c4", "c5")


@pytest.mark.parametrize("rule", strategies()["fedavg"].aggregations)
@pytest.mark.parametrize("strategy", SHARING)
def test_every_strategy_works_with_every_rule_whoever_comes_first(strategy, rule):
    given = [contribution(SharingDevice(n, ("c0",))) for n in range(1, 8)]
    one, other = (combined(order, strategy, aggregation=Choice(rule)) for order in (given, given[::-1]))
    assert all(one.weights[name].tobytes() == other.weights[name].tobytes() for name in one.weights)
    assert one.details == other.details
    assert bool(one.state) == (strategy == "fedopt")


def test_a_model_goes_on_from_its_last_round_and_a_new_model_begins_with_its_own_weights(tmp_path):
    fleet = CoreFleet(tmp_path, [SharingDevice(n, ("c0", "c1")) for n in (1, 2)])
    with refusal("no_model", "publish-model"):
        fleet.open(strategy="fedavg")
    info = fleet.publish_model()
    first = fleet.open(strategy="fedopt")
    work = fleet.work(fleet.devices[0])
    assert (work.model, work.weights, work.consensus) == (info.sha256, None, None)
    fleet.upload_all()
    fleet.advance()
    shown = describe_round(fleet.store, first)
    assert shown.summary.state == "done"
    work = fleet.work(fleet.devices[0])
    assert (work.kind, work.weights) == ("learn", shown.result_weights)
    assert describe_model(fleet.store).weights == shown.result_weights
    fleet.all_learned(first)
    second = describe_round(fleet.store, fleet.run_round(200.0, strategy="fedopt"))
    assert second.weights == shown.result_weights
    states = [moments(fleet, number) for number in (first, second.summary.round_id)]
    assert states[0]
    assert states[0] != states[1]
    fleet.publish_model(tiny_bundle(seed=9))
    third = describe_round(fleet.store, fleet.run_round(300.0, strategy="fedavg"))
    assert third.weights is None
    assert moments(fleet, third.summary.round_id) == {}


def moments(fleet, round_id):
    """The numbers of the server optimiser after a round; none without one."""
    with fleet.store.reading() as session:
        digest = session.get_one(RoundRow, round_id).result_server_state
    arrays = {} if digest is None else unpack(fleet.store.blobs.read(digest))[0]
    return {name: array.tolist() for name, array in arrays.items()}


def test_a_consensus_outlives_rounds_of_a_shared_model_and_grows_with_the_classes(tmp_path):
    kinds = {"zero_shot": devices(4), "fedavg": devices(4, SharingDevice)}
    fleet = CoreFleet(tmp_path, kinds["zero_shot"])
    fleet.publish_model()
    fleet.devices = quiet(fleet.devices)
    one = describe_round(fleet.store, fleet.run_round())
    fleet.devices = kinds["fedavg"]
    two = describe_round(fleet.store, fleet.run_round(200.0, strategy="fedavg"))
    before, after = (unpack(fleet.store.blobs.read(shown.result_consensus))[0]["scores"] for shown in (one, two))
    np.testing.assert_array_equal(after[:24, :4], before)
    assert after.shape == (32, 6)


def test_a_fleet_never_outgrows_its_model(tmp_path):
    fleet = CoreFleet(tmp_path, devices(4, SharingDevice))
    fleet.devices = [dataclasses.replace(device, capacity=5) for device in fleet.devices]
    fleet.publish_model(tiny_bundle(capacity=5))
    first = describe_round(fleet.store, fleet.run_round(strategy="fedavg"))  # two new sounds, of which one fits
    assert [len(group.members) for group in first.discovery.groups] == [2]  # the one that more devices met
    assert first.discovery.left_open == (2,)
    assert "1 new classes were not made" in first.discovery.limits[0]
    assert "5 classes" in first.discovery.limits[0]
    fleet.devices = quiet(fleet.devices)
    fleet.run_round(300.0, strategy="fedavg")


GOOD = SharingDevice(1, ("c0", "c1"), reports=(ClassReport(2, None, 5),), known=("c0",), sounds={2: 7})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"classes": ("c9",)}, ["'c9'"]),
        ({"reports": tuple(ClassReport(slot, None, 5) for slot in range(5))}, ["4 classes", "5 new", "capacity 8"]),
        (lambda a: a.pop("weights/head/bias"), ["'weights/head/bias' is missing"]),
        (lambda a: a.update({"weights/head/bias": np.zeros(7, np.float32)}), ["(7,)", "(8)"]),
        (lambda a: a.update({"weights/head/bias": np.zeros(8)}), ["float32", "float64"]),
        (lambda a: a["weights/body/kernel"].__setitem__((0, 1), np.nan), ["nan", "(0, 1)"]),
        (lambda a: a.update({"weights/tail": np.zeros(1, np.float32)}), ["'weights/tail'", "weights/body/kernel"]),
    ],
)
def test_a_document_or_arrays_that_do_not_fit_are_refused(change, words):
    changes, arrays = change if isinstance(change, dict) else {}, GOOD.arrays(WORK, 24)
    if not changes:
        change(arrays)
    with pytest.raises(MalformedUpdateError) as refused:
        check(TERMS, GOOD.update(WORK, **changes), arrays)
    assert all(word in str(refused.value) for word in words), refused.value


def test_the_steps_of_adaptive_local_training_by_hand():
    local = complete("local", Choice("fedkws_ui"))
    even = np.log(4)
    reported = (DeviceStatistics("a", 40, even), DeviceStatistics("b", 20, even / 2), DeviceStatistics("c", 40, 0.0))
    filled = adaptive_local_training(local, reported, 4).settings
    assert filled["most_clips"] == 40
    # r: n' = 1, e' = 1 -> 1; n' = e' = 1/2 -> 1/2; e' = 0 -> 0; K / sum r = 3 / 1.5
    assert filled["step_factor"] == pytest.approx(2.0)
    assert adaptive_local_training(local, (), 4) == local
    given = complete("local", Choice("fedkws_ui", {"step_factor": 3.5}))
    assert adaptive_local_training(given, reported, 4).settings["step_factor"] == 3.5
