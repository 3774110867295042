"""What owners said is not a class: kept, combined and handed down by the strategy `prototypes`, and what lies do."""

import dataclasses

import numpy as np
import pytest

from aggregator_server.aggregation.contract import ClassTerms, UploadTerms
from aggregator_server.aggregation.input_bounds import FeatureRange
from aggregator_server.aggregation.prototype_mean import COMPARED, RULE, Said, fleet_negatives
from aggregator_server.errors import MalformedUpdateError
from aggregator_server.strategies.prototypes import aggregate, check
from fleet_protocol.errors import TensorError
from fleet_protocol.limits import NEGATIVES_OF_FLEET
from fleet_protocol.methods.setting import complete
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_protocol.numbers.tensors import pack, unpack
from tests.support.embedded_words import CENTRES, NUMBERS, SETTINGS
from tests.support.prototype_rounds import PUBLIC, inputs, upload

RANGE = FeatureRange.of(PUBLIC.features)
TERMS = UploadTerms("0" * 64, 120, PUBLIC.class_ids, SETTINGS, feature_range=lambda: RANGE)
NO = "c1"
VALUES = complete("the rule", RULE.settings, {})


def told(result, class_id=NO):
    negatives = result.prototypes.negatives
    return np.zeros((0, NUMBERS)) if negatives is None else negatives.of_classes().get(class_id, np.zeros((0, NUMBERS)))


def off(rows, word):
    """How far the nearest row lies from a word, in numbers that have about 1 within a class."""
    return min(float(np.linalg.norm(row - CENTRES[word])) for row in rows)


HONEST = tuple(upload(number) for number in range(2, 9))
CORRECTED = upload(1, denied=[(NO, "go")])


def test_what_one_owner_said_is_told_to_all_and_devices_that_say_the_same_are_counted_together():
    one = aggregate(inputs(CORRECTED, *HONEST))
    assert one.prototypes.negatives.class_ids == (NO,)
    assert one.details["aggregation"]["negatives"] == {NO: [1]}
    assert off(told(one), "go") < 3
    assert one.prototypes.means.tobytes() == aggregate(inputs(upload(1), *HONEST)).prototypes.means.tobytes()
    both = aggregate(inputs(CORRECTED, upload(2, denied=[(NO, "go"), ("c0", "stop")]), *HONEST[1:]))
    assert both.details["aggregation"]["negatives"] == {"c0": [1], NO: [2]}
    assert off(told(both), "go") < 2
    assert off(told(both, "c0"), "stop") < 3
    again = aggregate(inputs(*HONEST[1:], upload(2, denied=[(NO, "go"), ("c0", "stop")]), CORRECTED))
    assert again.prototypes.pack() == both.prototypes.pack()


def test_it_is_kept_from_round_to_round_until_its_device_says_otherwise_or_is_revoked():
    first = aggregate(inputs(CORRECTED, *HONEST))
    later = {"state": first.state, "round_id": 6}
    assert off(told(aggregate(inputs(HONEST[0], **later))), "go") < 3
    undone = aggregate(inputs(upload(1), **later))
    assert undone.prototypes.negatives is None
    assert not any(name.startswith("negative") for name in undone.state)
    revoked = aggregate(inputs(HONEST[0], revoked=frozenset({f"{1:032x}"}), **later))
    assert revoked.prototypes.negatives is None
    gone = aggregate(inputs(HONEST[0], aggregation={"corrections": False}, **later))
    assert gone.prototypes.negatives is None


def test_it_follows_a_class_that_became_another_and_goes_with_one_that_is_gone():
    first = aggregate(inputs(upload(1, denied=[("c3", "go")]), *HONEST))
    kept = PUBLIC.labels < 3
    rows = {name: getattr(PUBLIC, name)[kept] for name in ("features", "labels", "synthetic")}
    left = dataclasses.replace(PUBLIC, classes=PUBLIC.classes[:3], **rows)
    later = {"state": first.state, "round_id": 6, "public_set": left}
    merged = aggregate(inputs(HONEST[0], class_terms=ClassTerms(merged={"c3": "c2"}), **later))
    assert off(told(merged, "c2"), "go") < 3
    assert aggregate(inputs(HONEST[0], **later)).prototypes.negatives is None


def test_the_blob_says_what_is_not_a_class_and_a_damaged_one_is_refused():
    found = aggregate(inputs(CORRECTED, *HONEST)).prototypes
    read = FleetPrototypes.unpack(found.pack())
    assert read.negatives.class_ids == (NO,)
    np.testing.assert_array_equal(read.negatives.means, found.negatives.means)
    assert read.negatives.devices.tolist() == [1]
    arrays, document = unpack(found.pack())
    for changed, words in (
        (document | {"negatives": None}, "names no classes"),
        (document | {"negatives": [NO, NO]}, "'negatives' has shape"),
    ):
        with pytest.raises(TensorError, match=words):
            FleetPrototypes.unpack(pack(arrays, changed))
    many = NEGATIVES_OF_FLEET + 1
    rows = {"negatives": np.zeros((many, 1, NUMBERS), np.float32), "negative_devices": np.ones(many, np.int64)}
    with pytest.raises(TensorError, match="17 negatives of 'c1'; at most 16"):
        FleetPrototypes.unpack(pack(arrays | rows, document | {"negatives": [NO] * many}))


@pytest.mark.parametrize(
    ("document", "arrays", "message"),
    [
        ({"negatives": ("c9",)}, {}, "'negatives' names 'c9', which is no class of the fleet"),
        ({"negatives": (NO,) * 3}, {}, "says of 3 sounds that they are not 'c1'; at most 2"),
        ({"negatives": (NO, "c0")}, {}, "'negatives' has shape"),
        ({"negatives": ()}, {}, "'negative_counts' does not belong|'negatives' does not belong"),
        ({}, {"negatives": np.full((1, 1, NUMBERS), np.nan, np.float32)}, "'negatives' holds nan"),
        ({}, {"negatives": np.full((1, 1, NUMBERS), 1e9, np.float32)}, "'negatives' holds 1e\\+09"),
        ({}, {"negatives": np.zeros((1, 1, NUMBERS))}, "'negatives' must be float32"),
        ({}, {"negatives": np.zeros((1, NUMBERS), np.float32)}, "'negatives' has shape"),
        ({}, {"negative_counts": np.zeros(1, np.float32)}, "at least one clip, not of 0"),
        ({}, {"negative_counts": np.full(1, np.inf, np.float32)}, "'negative_counts' holds inf"),
        ({}, {"negative_counts": np.ones(2, np.float32)}, "'negative_counts' has shape"),
    ],
)
def test_an_upload_whose_corrections_do_not_fit_is_refused(document, arrays, message):
    check(TERMS, CORRECTED.update, CORRECTED.read())
    with pytest.raises(MalformedUpdateError, match=message):
        check(TERMS, dataclasses.replace(CORRECTED.update, **document), CORRECTED.read() | arrays)


def test_who_denies_the_word_itself_is_not_believed_and_does_not_hide_what_is_true():
    """Three of ten devices deny the very word, as often as they may, and say that there are many clips."""
    liars = [upload(number, denied=[(NO, "no")] * 2, takes=1_000) for number in (20, 21, 22)]
    result = aggregate(inputs(CORRECTED, *HONEST[:6], *liars))
    assert off(told(result), "go") < 3
    by_votes = aggregate(inputs(*HONEST[:6], *liars)).details["aggregation"]["negatives"].get(NO, [])
    assert len(told(result)) == len(by_votes) + 1 <= NEGATIVES_OF_FLEET
    assert len(by_votes) < 4  # of six


def said(rows, devices):
    return Said(np.array(devices, "S32"), np.asarray(rows, np.float64), np.ones(len(rows)))


def test_each_device_is_heard_before_any_is_heard_twice_however_many_lies_there_are():
    axes = 10 * np.eye(40)
    lies = said(axes[:36], [f"{device:032x}" for device in range(9) for _ in range(4)])
    honest = said(axes[39:], ["f" * 32])
    every = Said(*(np.concatenate([getattr(one, name) for one in (lies, honest)]) for name in vars(honest)))
    for seed in range(5):
        rng = np.random.default_rng(seed)
        means, devices = fleet_negatives(every, np.zeros(40), np.zeros((0, 40)), np.eye(40), VALUES, rng)
        assert len(means) == len(devices) == NEGATIVES_OF_FLEET
        assert max(mean[39] for mean in means) == 10


def test_what_lies_no_farther_off_than_devices_scatter_is_dropped():
    votes = 2 * np.eye(3)
    rows, whose = [[0, 0, 2.4], [0, 0, 2.6], [0, 0, -50.0]], ["a", "b", "c"]
    rng = np.random.default_rng(0)
    means, devices = fleet_negatives(said(rows, whose), np.zeros(3), votes, np.eye(3), VALUES, rng)
    assert devices == [1, 1]
    assert sorted(mean[2] for mean in means) == [-50.0, 2.6]
    nothing = fleet_negatives(said(rows[:1], ["a"]), np.zeros(3), votes, np.eye(3), VALUES, rng)
    assert nothing == ([], [])


def test_a_flood_of_corrections_is_compared_within_bounds():
    rng = np.random.default_rng(1)
    rows = 5 * rng.normal(size=(4 * COMPARED, 30))
    whose = [f"{number // 4:032x}" for number in range(len(rows))]
    means, _ = fleet_negatives(said(rows, whose), np.zeros(30), np.zeros((0, 30)), np.eye(30), VALUES, rng)
    assert len(means) == NEGATIVES_OF_FLEET
