"""One round with two kinds of devices: those with the shared model's network, and others, which take part by scores."""

import dataclasses
import itertools

import numpy as np
import pytest

from aggregator_server.errors import InvalidRequestError, MalformedUpdateError
from aggregator_server.rounds.views.replies import describe_round
from aggregator_server.schemas import RoundRequest
from aggregator_server.strategies.mixed_networks import aggregate
from aggregator_server.strategies.registry import strategy
from fleet_protocol.messages import Choice, ClassReport
from fleet_protocol.public_set import PublicSet, unpack_consensus
from fleet_protocol.tensors import unpack
from tests.support.aggregator_process import FakeDevice, SharingDevice
from tests.support.core_fleet import CoreFleet
from tests.support.round_inputs import BUNDLE, MODEL, WORK, contribution
from tests.support.round_inputs import inputs as inputs_of

OTHERS = Choice("zero_shot")
FEDAVG = strategy("fedavg")


def reporting(kind, number, classes, sound, name):
    return kind(number, classes, reports=(ClassReport(2, name, 9),), known=classes, sounds={2: sound})


SHARERS = [SharingDevice(1, ("c0", "c1")), SharingDevice(3, ("c1", "c2"))]
SCORERS = [FakeDevice(2, ("c2", "c3")), FakeDevice(4, ("c3", "c0"))]
# Sound 7 is met by either kind, 8 by a device with the shared network alone, 9 by another alone.
SEVEN, EIGHT = reporting(SharingDevice, 1, ("c0", "c1"), 7, "stop"), reporting(SharingDevice, 3, ("c1", "c2"), 8, "go")
SEVEN_TOO, NINE = reporting(FakeDevice, 2, ("c2", "c3"), 7, "Stop"), reporting(FakeDevice, 4, ("c3", "c0"), 9, "bell")


def inputs(sharers, scorers, request=None, **changes):
    request = request or RoundRequest("fedavg", other_networks=OTHERS)
    return inputs_of(request, sharers, other_networks=tuple(map(contribution, scorers)), **changes)


def column(result, slot):
    return result.weights["head/kernel"][:, slot]


def test_weights_are_combined_as_without_others_and_scores_as_without_weights():
    mixed = aggregate(FEDAVG, inputs(SHARERS, SCORERS))
    weights = FEDAVG.aggregate(inputs(SHARERS, (), RoundRequest("fedavg")))
    scores = strategy("zero_shot").aggregate(inputs_of(RoundRequest("zero_shot"), SCORERS))
    assert {name: array.tobytes() for name, array in mixed.weights.items()} == {
        name: array.tobytes() for name, array in weights.weights.items()
    }
    assert mixed.consensus.tobytes() == scores.consensus.tobytes()
    assert set(mixed.details["accuracies"]) == {device.device_id for device in SCORERS}
    assert mixed.details["betas"] == scores.details["betas"]
    assert mixed.details["aggregation"] == weights.details["aggregation"]


def test_a_sound_that_either_kind_reports_becomes_one_class_of_all():
    result = aggregate(FEDAVG, inputs([SEVEN, EIGHT], [SEVEN_TOO, NINE]))
    assert {(int(item.device_id, 16), item.class_id) for item in result.assignments} == {
        (1, "c4"),
        (2, "c4"),
        (3, "c5"),
        (4, "c6"),
    }
    assert [info.name for info in result.public_set.classes[4:]] == ["Stop", "go", "bell"]
    own = [device.arrays(WORK, 24)["weights/head/kernel"][:, 4] for device in (SEVEN, EIGHT)]
    np.testing.assert_allclose(column(result, 4), own[0], rtol=1e-6)  # of who has weights, of the two who met it
    np.testing.assert_allclose(column(result, 5), own[1], rtol=1e-6)
    np.testing.assert_allclose(column(result, 6), BUNDLE.weights["head/kernel"][:, 6], rtol=1e-6)
    rows = len(result.public_set.labels)
    assert result.consensus.shape == (rows, 7)
    assert result.consensus[:24, [0, 2, 3]].all()
    assert not result.consensus[24:].any()
    assert not result.consensus[:, 4:].any()
    assert [group["class_id"] for group in result.details["discovery"]["groups"]] == ["c4", "c5", "c6"]


def test_the_rows_of_a_sound_are_the_average_of_both_kinds_impressions():
    result = aggregate(FEDAVG, inputs([SEVEN], [SEVEN_TOO]))
    own = [device.arrays(WORK, 24)["impressions"][2] for device in (SEVEN, SEVEN_TOO)]
    np.testing.assert_allclose(result.public_set.features[24:], np.mean(own, axis=0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rule", ["weighted_mean", "trimmed_mean", "lpa", "krum"])
def test_the_order_in_which_uploads_came_changes_no_bit(rule):
    sharers, scorers = (
        [SEVEN, EIGHT, SharingDevice(5, ("c0",)), SharingDevice(6, ("c3",))],
        [SEVEN_TOO, NINE, FakeDevice(8, ("c1",))],
    )
    request = RoundRequest("fedavg", other_networks=OTHERS, aggregation=Choice(rule))
    results = [
        aggregate(FEDAVG, inputs(mains, others, request))
        for mains, others in itertools.product((sharers, sharers[::-1]), (scorers, scorers[::-1]))
    ]
    seen = {
        (
            result.public_set.pack(),
            result.consensus.tobytes(),
            b"".join(array.tobytes() for _, array in sorted(result.weights.items())),
            result.assignments,
            repr(result.details),
        )
        for result in results
    }
    assert len(seen) == 1


def test_a_kind_of_which_nobody_uploaded_changes_nothing_of_its_own():
    before = np.full((24, 4), 0.5, np.float32)
    alone = aggregate(FEDAVG, inputs([SEVEN], [], consensus=before, has_consensus=True))
    np.testing.assert_array_equal(alone.consensus[:24, :4], before)
    assert alone.consensus.shape == (28, 5)
    assert aggregate(FEDAVG, inputs(SHARERS, [])).consensus is None
    scored = aggregate(FEDAVG, inputs([], [NINE], model=dataclasses.replace(MODEL, state={"m": np.ones(1)})))
    for name, array in BUNDLE.weights.items():
        np.testing.assert_array_equal(scored.weights[name], array)
    assert scored.state == {"m": np.ones(1)}
    assert scored.consensus.shape == (28, 5)


def mixed_fleet(tmp_path, **request):
    fleet = CoreFleet(tmp_path, [SEVEN, EIGHT, SEVEN_TOO, NINE])
    model = fleet.publish_model()
    round_id = fleet.open(strategy="fedavg", other_networks=OTHERS, **request)
    return fleet, model, round_id


def test_each_device_is_asked_for_what_its_network_allows(tmp_path):
    fleet, model, round_id = mixed_fleet(tmp_path)
    sharer, scorer = fleet.work(SEVEN), fleet.work(NINE)
    assert (sharer.plan.local.name, sharer.model, sharer.plan.personalisation.name) == ("fedavg", model.sha256, "local")
    assert (scorer.plan.local.name, scorer.model, scorer.plan.personalisation.name) == ("zero_shot", None, "none")
    assert scorer.plan.other_networks is None
    assert scorer.public_set == sharer.public_set
    with pytest.raises(MalformedUpdateError, match="'scores' does not belong"):
        fleet.upload(SEVEN, data=dataclasses.replace(SEVEN_TOO, number=1).upload({"round_id": 1} | public(fleet), 24))
    with pytest.raises(MalformedUpdateError, match="'weights/body/kernel' does not belong"):
        fleet.upload(NINE, data=dataclasses.replace(EIGHT, number=4).upload({"round_id": 1} | public(fleet), 24))
    fleet.upload_all()
    assert fleet.advance() == round_id
    shown = describe_round(fleet.store, round_id)
    assert {one.device_id: one.strategy for one in shown.participants} == {
        device.device_id: name
        for device, name in zip(fleet.devices, ("fedavg", "fedavg", "zero_shot", "zero_shot"), strict=True)
    }
    for device, of_model in ((SEVEN, True), (NINE, False)):
        work = fleet.work(device)
        assert (work.kind, work.fine_tune) == ("learn", of_model)
        assert (work.weights, work.model) == ((shown.result_weights, model.sha256) if of_model else (None, None))
        assert work.consensus == shown.result_consensus
        assert [info.class_id for info in work.classes] == [f"c{n}" for n in range(7)]
        assert [item.class_id for item in work.assignments] == ["c4" if of_model else "c6"]
        fleet.learned(device, round_id)
        assert fleet.work(device) is None


def public(fleet):
    return {"public_set": fleet.public_set.sha256}


def test_the_next_round_is_about_the_public_set_as_it_grew(tmp_path):
    fleet, _, first = mixed_fleet(tmp_path)
    fleet.upload_all()
    fleet.advance()
    fleet.devices = [
        SharingDevice(1, ("c0", "c1", "c4")),
        SharingDevice(3, ("c1", "c2", "c5")),
        FakeDevice(2, ("c2", "c3", "c5")),
        FakeDevice(4, ("c3", "c0", "c4", "c6")),
    ]
    fleet.all_learned(first)
    second = describe_round(fleet.store, fleet.run_round(200.0, strategy="fedavg", other_networks=OTHERS))
    assert second.weights == describe_round(fleet.store, first).result_weights
    grown = PublicSet.unpack(fleet.store.blobs.read(second.public_set))
    scores, class_ids = unpack_consensus(fleet.store.blobs.read(second.result_consensus))
    assert class_ids == grown.class_ids
    assert scores.shape == (len(grown.labels), 7)
    assert scores[:, 4:].all()  # those who adopted the new classes scored the new rows as well


@pytest.mark.parametrize("absent", [(SEVEN, EIGHT), (SEVEN_TOO, NINE), (EIGHT, NINE)])
def test_the_quorum_counts_both_kinds_and_a_kind_may_be_absent(tmp_path, absent):
    fleet, _, round_id = mixed_fleet(tmp_path, quorum=0.5, deadline_s=60)
    for device in (one for one in fleet.devices if one not in absent):
        fleet.upload(device)
    assert fleet.advance(159.0) is None
    assert fleet.advance(160.0) == round_id
    shown = describe_round(fleet.store, round_id)
    assert (shown.summary.state, shown.summary.uploaded) == ("done", 2)
    weights, _ = unpack(fleet.store.blobs.read(shown.result_weights))
    moved = not np.array_equal(weights["body/kernel"], BUNDLE.weights["body/kernel"])
    assert moved == (SEVEN not in absent or EIGHT not in absent)
    assert (shown.result_consensus is None) == (SEVEN_TOO in absent and NINE in absent)


def test_a_device_that_says_its_network_is_not_taken_by_the_name_of_its_architecture(tmp_path):
    class Rebuilt(SharingDevice):
        """The same architecture with another capacity."""

        def enrolment(self, **changes):
            return super().enrolment(network="f" * 64)

    class Same(FakeDevice):
        """The shared model under another name."""

        def enrolment(self, **changes):
            return super().enrolment(network=BUNDLE.manifest.network)

    fleet = CoreFleet(tmp_path, [Rebuilt(1, ("c0", "c1")), Same(2, ("c0", "c1"))])
    fleet.publish_model()
    shown = describe_round(fleet.store, fleet.open(strategy="fedavg", other_networks=OTHERS))
    assert [one.strategy for one in shown.participants] == ["zero_shot", "fedavg"]
    with pytest.raises(InvalidRequestError, match="network must be 64"):
        fleet.enrol(
            type("Odd", (FakeDevice,), {"enrolment": lambda self: FakeDevice.enrolment(self, network="x")})(9, ())
        )


def test_groups_are_of_devices_that_share_the_model(tmp_path):
    groups = Choice("group_balanced", {"groups": 2, "most_rounds": 1, "least_rounds": 1})
    fleet, _, first = mixed_fleet(tmp_path, personalisation=groups)
    fleet.upload_all()
    fleet.advance()
    shown = describe_round(fleet.store, first)
    assert {device_id for group in shown.groups for device_id in group} == {SEVEN.device_id, EIGHT.device_id}
    for device in (SEVEN_TOO, NINE):
        assert (fleet.work(device).kind, fleet.work(device).fine_tune) == ("learn", False)
        fleet.learned(device, first)
        assert fleet.work(device) is None


def test_losses_and_clips_of_the_others_are_not_counted_among_those_of_the_model(tmp_path):
    class Even(SharingDevice):
        def update(self, work, **changes):
            return super().update(work, label_entropy=np.log(2), metrics={"training_loss": 0.5}, **changes)

    class Uneven(FakeDevice):
        def update(self, work, **changes):
            return super().update(work, clips=4_000, label_entropy=0.1, metrics={"training_loss": 99.0}, **changes)

    fleet = CoreFleet(tmp_path, [Even(1, ("c0", "c1")), Uneven(2, ("c0", "c1"))])
    fleet.publish_model()
    shown = describe_round(fleet.store, fleet.run_round(strategy="fedkws_ui", other_networks=OTHERS))
    assert shown.summary.training_loss == 0.5
    second = describe_round(fleet.store, fleet.open(200.0, strategy="fedkws_ui", other_networks=OTHERS))
    assert second.plan.local.settings["most_clips"] == 41


def test_an_other_that_reports_more_than_the_shared_head_holds_is_refused(tmp_path):
    fleet, _, _ = mixed_fleet(tmp_path)
    many = tuple(ClassReport(slot, None, 5) for slot in range(2, 7))
    greedy = dataclasses.replace(NINE, reports=many, sounds={slot: 20 + slot for slot in range(2, 7)})
    with pytest.raises(MalformedUpdateError, match="4 classes and 5 new sounds do not fit"):
        fleet.upload(greedy)
