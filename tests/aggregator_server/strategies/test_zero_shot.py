"""The zero-shot strategy: what a round's uploads lead to, on arrays alone."""

import dataclasses

import numpy as np
import pytest

from aggregator_server.aggregation.contract import Assigned, UploadTerms
from aggregator_server.discovery.clustering import Discovery, Group, ReportedClass
from aggregator_server.discovery.new_classes import settle
from aggregator_server.errors import MalformedUpdateError
from aggregator_server.names import majority_name, unique_name
from aggregator_server.schemas import RoundRequest
from aggregator_server.strategies.zero_shot import aggregate, check
from fleet_protocol.messages.rest import ClassReport
from tests.support.aggregator_process import SETTINGS, FakeDevice
from tests.support.round_inputs import PUBLIC, WORK, inputs

REQUEST = RoundRequest("zero_shot")
TERMS = UploadTerms("0" * 64, 24, PUBLIC.class_ids, SETTINGS)


def reporting(number, classes, slot, sound, name=None):
    return FakeDevice(number, classes, reports=(ClassReport(slot, name, 5),), known=classes, sounds={slot: sound})


DEVICES = [
    reporting(1, ("c0", "c1"), 2, sound=7, name="Stop"),
    reporting(2, ("c1", "c2"), 2, sound=7, name="stop"),
    reporting(3, ("c2", "c3"), 5, sound=8, name="go"),
    FakeDevice(4, ("c3", "c0")),
]


def test_a_round_without_news_keeps_the_public_set():
    result = aggregate(inputs(REQUEST, [FakeDevice(1, ("c0", "c1")), FakeDevice(2, ("c1", "c2"))]))
    assert result.public_set is PUBLIC
    assert result.assignments == ()
    assert result.details["discovery"] is None
    assert set(result.details["betas"]) == {"c0", "c1", "c2"}
    assert not result.consensus[:, 3].any()


def test_new_sounds_become_classes_with_the_average_impressions_as_rows():
    given = inputs(REQUEST, DEVICES)
    result = aggregate(given)
    assert [info.name for info in result.public_set.classes[4:]] == ["Stop", "go"]
    assert [info.class_id for info in result.public_set.classes[4:]] == ["c4", "c5"]
    assert {info.discovered_in for info in result.public_set.classes[4:]} == {3}
    assert set(result.assignments) == {
        Assigned(DEVICES[0].device_id, 2, "c4"),
        Assigned(DEVICES[1].device_id, 2, "c4"),
        Assigned(DEVICES[2].device_id, 5, "c5"),
    }
    own = [item.read()["impressions"] for item in given.contributions[:3]]
    np.testing.assert_allclose(result.public_set.features[24:28], (own[0][2] + own[1][2]) / 2, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(result.public_set.features[28:32], own[2][2])
    assert result.public_set.labels[24:].tolist() == [4] * 4 + [5] * 4
    assert result.public_set.synthetic.tolist() == [False] * 24 + [True] * 8


def reports_of(*owners):
    shape = (4, *SETTINGS.shape)
    return [ReportedClass(owner, slot, None, np.full(shape, slot, np.float32)) for owner, slot in owners]


def test_a_device_never_gets_a_class_twice():
    reports = reports_of(("a", 5), ("a", 6), ("b", 7))
    settled = settle(PUBLIC, 3, reports, Discovery((Group((0, 1)), Group((2,))), {}))
    assert settled.assignments == (Assigned("a", 5, "c4"), Assigned("b", 7, "c5"))
    assert settled.details["left_open"] == [1]
    np.testing.assert_array_equal(settled.public_set.features[24:28], 5)  # the report that was left open adds nothing


def test_an_identifier_that_is_taken_is_not_given_again():
    classes = tuple(dataclasses.replace(info, class_id=f"c{i + 1}") for i, info in enumerate(PUBLIC.classes))
    taken = dataclasses.replace(PUBLIC, classes=classes)
    settled = settle(taken, 3, reports_of(("a", 5)), Discovery((Group((0,)),), {}))
    assert settled.public_set.class_ids == ("c1", "c2", "c3", "c4", "c5")
    assert settled.public_set.classes[-1].name == "sound-5"


def test_most_owners_decide_on_the_name_and_its_spelling():
    assert majority_name([None, "go", "STOP", "Stop", "Stop"]) == "Stop"
    assert majority_name([None, ""]) is None
    assert majority_name(["b", "a"]) == "a"  # a draw: the first in the alphabet, whoever comes first
    assert unique_name("Stop", ["go"]) == "Stop"
    assert unique_name("Stop", ["stop", "stop (2)"]) == "Stop (3)"


GOOD = DEVICES[0]


def test_a_good_upload_passes():
    check(TERMS, GOOD.update(WORK), GOOD.arrays(WORK, 24))
    only_news = FakeDevice(9, (), reports=(ClassReport(0, None, 3),), sounds={0: 7})
    check(TERMS, only_news.update(WORK), only_news.arrays(WORK, 24))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"classes": ("c0", "c9")}, ["'c9'", "c0, c1, c2, c3"]),
        ({"classes": ("c0", "c0")}, ["'c0' twice"]),
        ({"known": ("c0", "zebra")}, ["'known'", "'zebra'"]),
        ({"classes": (), "reports": (), "known": ()}, ["no class", "no new sound"]),
        ({"reports": (ClassReport(-1, None, 5),)}, ["slots", "-1"]),
        ({"reports": (ClassReport(2, None, 5), ClassReport(2, None, 5))}, ["slots", "[2, 2]"]),
        ({"reports": tuple(ClassReport(slot, None, 5) for slot in range(33))}, ["33", "32"]),
        ({"reports": (ClassReport(2, "a\nb", 5),)}, ["slot 2", "printable"]),
        ({"reports": (ClassReport(2, "\ud800", 5),)}, ["slot 2", "printable"]),
        ({"reports": (ClassReport(2, None, 0),)}, ["slot 2", "0 clips"]),
        ({"classes": ("c0",)}, ["'scores'", "(24, 2)", "(24, 1)"]),
        ({"reports": (), "known": ()}, ["'impressions'", "does not belong"]),
        (lambda arrays: arrays.pop("scores"), ["'scores' is missing"]),
        (lambda arrays: arrays.pop("impressions"), ["'impressions' is missing"]),
        (lambda arrays: arrays.update(extra=np.zeros(3, np.float32)), ["'extra'", "scores, impressions"]),
        (lambda arrays: arrays.update(scores=arrays["scores"][:-1]), ["(23, 2)", "(24, 2)"]),
        (lambda arrays: arrays.update(scores=arrays["scores"].astype(np.float64)), ["float32", "float64"]),
        (lambda arrays: arrays.update(scores=np.zeros((24, 2), np.int32)), ["int32"]),
        (lambda arrays: arrays.update(scores=np.full((24, 2), np.nan, np.float32)), ["nan", "finite"]),
        (lambda arrays: arrays["impressions"].__setitem__((0, 0, 0, 0), np.inf), ["inf", "(0, 0, 0, 0)"]),
        (lambda arrays: arrays.update(impressions=arrays["impressions"][:, :0]), ["0 impressions"]),
        (lambda arrays: arrays.update(impressions=arrays["impressions"][:, :, :3]), ["'impressions'", "20, 13"]),
    ],
)
def test_a_document_or_arrays_that_do_not_fit_are_refused(change, words):
    changes, arrays = change if isinstance(change, dict) else {}, GOOD.arrays(WORK, 24)
    if not changes:
        change(arrays)
    with pytest.raises(MalformedUpdateError) as refused:
        check(TERMS, GOOD.update(WORK, **changes), arrays)
    assert all(word in str(refused.value) for word in words), refused.value
