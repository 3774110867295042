"""What comes before the end of a long word in a round of prototypes: combined, kept, and not spoiled by a liar."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from aggregator_server.aggregation.contract import Contribution, UploadTerms
from aggregator_server.aggregation.input_bounds import FeatureRange
from aggregator_server.errors import MalformedUpdateError
from aggregator_server.operator_changes.class_columns import ClassChange, changed_prototypes
from aggregator_server.strategies.prototypes import aggregate, check
from fleet_protocol.messages.rest import ClassInfo
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_protocol.numbers.tensors import unpack
from fleet_protocol.numbers.word_order import WordOrder
from tests.support.embedded_words import CENTRES, NUMBERS, SETTINGS, clips
from tests.support.prototype_rounds import PUBLIC, inputs, upload

KEPT = Path(__file__).parent / "kept_data"
LYING = "go"


def phrase(number, said=("no", "up"), length_s=1.3, known=("c0",), takes=8, **others):
    """A device's upload of one class, before whose end it heard some words, the newest first; None: nothing."""
    made = upload(number, known, takes=takes, **others)
    rng = np.random.default_rng([number, 9])
    rows = [clips(word, takes, rng).mean(axis=0) for word in said]
    words = [(np.array(rows, np.float32).reshape(-1, 1, NUMBERS), length_s)] * len(made.read()["counts"])
    arrays = made.read() | WordOrder.of(words, (1, NUMBERS)).arrays
    return Contribution(made.update, lambda: arrays)


def heard(result, class_id="c0"):
    """The words that a class is told to follow, the newest first, and its length."""
    found = result.prototypes
    rows, length_s = found.order.word(found.class_ids.index(class_id))
    names = list(CENTRES)
    apart = np.linalg.norm(rows[:, 0, None] - np.array([CENTRES[name] for name in names]), axis=2)
    return [names[place] for place in apart.argmin(axis=1)], length_s


def test_windows_are_aligned_from_the_newest_and_one_counts_where_most_sent_it():
    longer = phrase(3, ("no", "up", "down"), 2.0)
    result = aggregate(inputs(phrase(1), phrase(2, length_s=1.5), longer))
    assert heard(result) == (["no", "up"], 1.5)
    assert result.details["aggregation"]["order"] == {"c0": 2}
    assert heard(aggregate(inputs(longer)))[0] == ["no", "up", "down"]
    assert heard(aggregate(inputs(phrase(1), phrase(2, ("no",), 0.7), phrase(3, ("no",), 0.7))))[0] == ["no"]
    again = aggregate(inputs(longer, phrase(2, length_s=1.5), phrase(1)))
    assert again.prototypes.pack() == result.prototypes.pack()


def test_a_window_is_combined_as_prototypes_are():
    given = [phrase(n, takes=n) for n in (1, 2, 3)]
    result = aggregate(inputs(*given, aggregation={"centre": "mean", "vote_cap": 2}))
    rows = np.stack([one.read()["before"][0, 0] for one in given])
    np.testing.assert_allclose(result.prototypes.order.means[0, 0], np.array([1, 2, 2]) @ rows / 5, rtol=1e-5)


def test_who_sends_none_counts_so_that_one_who_does_is_not_believed_alone():
    """Devices of an earlier release take part in the same round."""
    assert heard(aggregate(inputs(phrase(1), upload(2, ("c0",)))))[0] == []
    assert heard(aggregate(inputs(phrase(1), phrase(2), upload(3, ("c0",)))))[0] == ["no", "up"]
    assert heard(aggregate(inputs(phrase(1), upload(2, ("c0",)), upload(3, ("c0",)))))[0] == []
    assert heard(aggregate(inputs(phrase(1, known=("c1",)), upload(2, ("c0",)))), "c1")[0] == ["no", "up"]


@pytest.mark.parametrize("place", [1, 3, 5])
@pytest.mark.parametrize("lie", [(LYING, LYING), (LYING,), ("yes", "no", "up", "down", "stop"), ()])
def test_a_liar_among_three_spoils_no_order_that_two_honest_devices_sent(place, lie):
    honest = [phrase(2), phrase(4)]
    liar = phrase(place, lie, 4.0, takes=1_000)
    assert heard(aggregate(inputs(*honest, liar))) == (["no", "up"], pytest.approx(1.3))


def test_liars_with_half_of_the_weight_make_no_order_where_the_others_send_none_or_another():
    for honest in (upload(3, ("c0",)), phrase(3)):
        assert heard(aggregate(inputs(phrase(1, (LYING,)), honest)))[0] == []
        others = [upload(n, ("c0",)) for n in (4, 5)]
        assert heard(aggregate(inputs(phrase(1, (LYING,)), phrase(2, (LYING,)), honest, *others)))[0] == []


def test_an_order_is_kept_until_its_device_sends_another_one_or_is_revoked():
    state = aggregate(inputs(phrase(1), phrase(2, known=("c0", "c1")))).state
    later = {"state": state, "round_id": 6}
    kept = aggregate(inputs(upload(3, ("c1",)), **later))
    assert heard(kept)[0] == ["no", "up"]
    assert heard(kept, "c1")[0] == []  # of two devices one sent none
    assert heard(aggregate(inputs(upload(1, ("c0",)), **later)))[0] == []
    revoked = aggregate(inputs(upload(3, ("c2",)), **later, revoked=frozenset({f"{1:032x}"})))
    assert heard(revoked)[0] == ["no", "up"]
    assert revoked.prototypes.devices.tolist() == [1, 1, 1]


def test_a_fleet_goes_on_from_what_the_release_before_kept_and_sent():
    """Made by the release that knew no order."""
    former = FleetPrototypes.unpack((KEPT / "prototypes-1.safetensors").read_bytes())
    assert former.order.states.tolist() == [0] * len(former.class_ids)
    state, _ = unpack((KEPT / "votes-1.safetensors").read_bytes())
    result = aggregate(inputs(phrase(4, known=("c0", "c2")), state=state, round_id=6))
    assert result.prototypes.devices[0] == 4
    assert (heard(result)[0], heard(result, "c2")[0]) == ([], ["no", "up"])
    enough = aggregate(inputs(*(phrase(n) for n in (1, 2, 3, 4)), state=state, round_id=6))
    assert heard(enough)[0] == ["no", "up"]


def test_no_order_is_made_where_the_plan_does_not_ask_for_it():
    off = inputs(phrase(1), aggregation={"order": False})
    assert aggregate(off).prototypes.order is None
    assert not [name for name in aggregate(off).state if "before" in name]
    plan = inputs(phrase(1)).plan  # of a round that the release before opened
    settings = {name: value for name, value in plan.aggregation.settings.items() if name != "order"}
    plan = dataclasses.replace(plan, aggregation=dataclasses.replace(plan.aggregation, settings=settings))
    assert aggregate(inputs(phrase(1), plan=plan)).prototypes.order is None


def test_a_merged_class_has_the_order_of_the_one_of_most_devices():
    result = aggregate(inputs(phrase(1), phrase(2), phrase(3, ("down",), 0.7, known=("c1",))))
    classes = (ClassInfo("c0", "yes"),)
    merged = changed_prototypes(result.prototypes, ClassChange(classes, (("c0", "c1"),)))
    assert heard(dataclasses.replace(result, prototypes=merged))[0] == ["no", "up"]
    retired = changed_prototypes(result.prototypes, ClassChange((ClassInfo("c1", "no"),), (("c1",),)))
    assert heard(dataclasses.replace(result, prototypes=retired), "c1")[0] == ["down"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"before": np.full((2, 1, NUMBERS), 1e6, np.float32)}, "'before' holds 1e.06 at .*public recordings"),
        ({"before": np.full((2, 1, NUMBERS), np.nan, np.float32)}, "finite"),
        ({"before": np.zeros((40, 1, NUMBERS), np.float32)}, "'before' has 40 windows"),
        ({"before_states": np.array([40], np.float32)}, "than 0 to 5"),
        ({"before_lengths": np.array([1e30], np.float32)}, "above 0 to 4 s"),
        ({"before_lengths": np.ones(2, np.float32)}, "expected"),
        ({"before_states": np.array([2], np.int64)}, "kind"),
        ({"before_states": None}, "is missing"),
    ],
)
def test_an_upload_with_an_order_that_no_device_has_is_refused(changed, message):
    terms = UploadTerms("0" * 64, 120, PUBLIC.class_ids, SETTINGS, None, lambda: FeatureRange.of(PUBLIC.features))
    good = phrase(1)
    check(terms, good.update, good.read())
    arrays = {name: array for name, array in (good.read() | changed).items() if array is not None}
    with pytest.raises(MalformedUpdateError, match=message):
        check(terms, good.update, arrays)


def classes_of(result):
    return {(int(one.device_id, 16), one.slot): one.class_id for one in result.assignments}


@pytest.mark.parametrize(
    ("said", "same"), [(("no", "up"), True), (("no", "down"), False), (("up",), False), ((), True)]
)
def test_a_phrase_is_another_ones_class_only_if_what_comes_before_its_end_is_the_same(said, same):
    """Where it is not said, the end alone tells."""
    mine = phrase(1, known=("c0",), met={4: "stop"})
    other = phrase(2, said, known=("c0",), met={7: "stop"})
    at_once = classes_of(aggregate(inputs(mine, other)))
    assert (at_once[1, 4] == at_once[2, 7]) is same
    first = aggregate(inputs(mine))
    later = inputs(other, public_set=first.public_set, state=first.state, prototypes=first.prototypes, round_id=6)
    assert (classes_of(aggregate(later))[2, 7] == classes_of(first)[1, 4]) is same
