"""Which label is which class of the fleet: what the owner says of it wins, and an operator's changes are followed."""

import dataclasses

import pytest

from edge_client.learning.class_links import (
    adopt_classes,
    follow_fleet,
    follow_names,
    link_recognised,
    take_labels,
    unlinked,
    without_silent,
)
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.errors import LabelError
from fleet_protocol.messages.rest import ClassAssignment, ClassInfo, MergedClass
from tests.support.round_work import work_of

CLASSES = (ClassInfo("c0", "yes"), ClassInfo("c1", "stop"))


def test_a_label_that_the_aggregator_took_for_a_class_gives_it_back_when_its_clips_get_the_class_s_name():
    labels = link_recognised(LabelMap(8).add("halt"), [ClassAssignment(0, "c1")])
    assert labels.class_ids == ("c1",)
    renamed = take_labels(labels, ["stop"], CLASSES)
    assert dict(zip(renamed.names, renamed.class_ids, strict=True)) == {"halt": None, "stop": "c1"}
    both = take_labels(labels, ["halt", "stop"], CLASSES)  # an owner with clips of both means two sounds
    assert dict(zip(both.names, both.class_ids, strict=True)) == {"halt": "c1", "stop": None}


def test_a_class_that_has_a_slot_keeps_it_and_the_owner_is_told_how_to_make_both_one(caplog):
    labels = LabelMap(8).add("stop", "c1").add("halt")
    with caplog.at_level("INFO"):
        assert link_recognised(labels, [ClassAssignment(1, "c1")]) == labels
        assert link_recognised(labels, [ClassAssignment(0, "c1")]) == labels
    assert [record.getMessage().count("'halt'") for record in caplog.records] == [1]
    assert "auricle-edge clips relabel --label OLD NEW" in caplog.text


def work(**what_became_of_others):
    return dataclasses.replace(work_of(), kind="learn", classes=CLASSES, **what_became_of_others)


def links(labels):
    return {
        name: class_id for name, class_id in zip(labels.names, labels.class_ids, strict=True) if name in labels.labels
    }


def test_a_class_that_is_gone_leaves_a_free_slot_where_nobody_recorded_it_and_the_owner_s_label_where_somebody_did():
    labels = LabelMap(3).add("yes", "c0").add("junk", "c7").add("bell", "c8")
    followed = follow_fleet(labels, work(retired=("c7", "c8")), ["yes", "bell"])
    assert links(followed) == {"yes": "c0", "bell": "c8"}  # the fleet does not have it, but it is not reported again
    assert followed.mask.tolist() == [1, 0, 1]
    assert unlinked(followed) == []
    assert followed.room == 1
    assert LabelMap.from_json(followed.to_json()) == followed
    grown = adopt_classes(followed, CLASSES)
    assert links(grown) == {"yes": "c0", "stop": "c1", "bell": "c8"}
    assert grown.slot_of("stop") == 1
    assert grown.new_since(followed) == (1,)
    assert adopt_classes(grown, [*CLASSES, ClassInfo("c9", "go")]) == grown  # there is no room


def test_a_class_whose_round_was_undone_is_a_new_sound_again():
    labels = LabelMap(8).add("yes", "c0").add("bell", "c8")
    followed = follow_fleet(labels, work(), ["bell"])
    assert links(followed) == {"yes": "c0", "bell": None}
    assert unlinked(followed) == [1]


@pytest.mark.parametrize(
    ("before", "clips", "after"),
    [
        ({"halt": "c8"}, ["halt"], {"halt": "c1"}),
        ({"halt": "c8"}, [], {"stop": "c1"}),
        ({"stop": "c1", "halt": "c8"}, ["stop"], {"stop": "c1"}),
        ({"stop": "c1", "halt": "c8"}, ["halt"], {"halt": "c1"}),
        ({"stop": "c1", "halt": "c8"}, [], {"stop": "c1"}),
        ({"stop": "c1", "halt": "c8"}, ["stop", "halt"], {"stop": "c1", "halt": "c8"}),
        ({"halt": "c6"}, ["halt"], {"halt": "c1"}),
    ],
)
def test_a_merged_class_is_what_it_became_and_the_label_with_clips_stays(before, clips, after):
    labels = LabelMap(8)
    for name, class_id in before.items():
        labels = labels.add(name, class_id)
    merged = (MergedClass("c8", "c1"), MergedClass("c6", "c1"))
    assert links(follow_fleet(labels, work(merged=merged), clips)) == after
    into_retired = work(merged=(MergedClass("c9", "c7"),), retired=("c7",))
    assert links(follow_fleet(LabelMap(8).add("halt", "c9"), into_retired, ["halt"])) == {"halt": "c9"}


def test_a_slot_that_the_device_does_not_use_is_left_out_with_a_warning(caplog):
    labels = LabelMap(8).add("halt").add("stop", "c1")
    assert link_recognised(labels, [ClassAssignment(7, "c2"), ClassAssignment(9, "c1")]) == labels
    assert caplog.text.count("which this device does not use") == 2


@pytest.mark.parametrize(
    ("before", "names", "owners", "after"),
    [
        ({"sound-4": "c4"}, {"c4": "lights"}, [], {"lights": "c4"}),
        ({"ping": "c4"}, {"c4": "lights"}, ["ping"], {"ping": "c4"}),  # the owner's own word
        ({"a": "c1", "b": "c2"}, {"c1": "b", "c2": "a"}, [], {"b": "c1", "a": "c2"}),
        ({"sound-4": "c4", "lights": None}, {"c4": "lights"}, ["lights"], {"lights": "c4"}),  # both speak of one thing
        ({"a": "c1", "lights": "c2"}, {"c1": "lights"}, ["lights"], {"lights (c1)": "c1", "lights": "c2"}),
        ({"lights (c1)": "c1", "b": "c2"}, {"c1": "lights"}, [], {"lights": "c1", "b": "c2"}),
        ({"a": "c1", "b": "c2"}, {"c1": "x (c2)", "c2": "x"}, ["x (c2)"], {"x (c2)": "c1", "x": "c2"}),
    ],
)
def test_a_class_has_the_name_that_the_fleet_gives_it_now_and_the_owner_s_own_word_stays(before, names, owners, after):
    labels = LabelMap(8)
    for name, class_id in before.items():
        labels = labels.add(name, class_id)
    followed = follow_names(labels, names, owners)
    assert links(followed) == after
    assert follow_names(followed, names, owners) == followed


def test_an_owners_label_finds_a_slot_in_a_full_head_and_the_newest_sound_of_others_makes_room():
    full = LabelMap(3).add("yes", "c0").add("planted", "c7").add("lights", "c8")
    taken = take_labels(full, ["yes", "bell"], CLASSES)
    assert links(taken) == {"yes": "c0", "planted": "c7", "bell": None}
    assert taken.new_since(full) == (2,)  # what the weights know of that slot is another sound
    both = take_labels(taken, ["yes", "bell", "own"], CLASSES)
    assert links(both) == {"yes": "c0", "bell": None, "own": None}
    with pytest.raises(LabelError):
        take_labels(both, ["yes", "bell", "own", "more"], CLASSES)


def test_a_class_that_the_device_is_not_to_listen_for_gives_its_slot_up_unless_its_owner_has_clips_of_it():
    labels = LabelMap(8).add("yes", "c0").add("lights", "c8").add("mine", "c9")
    assert links(without_silent(labels, {"c8", "c9"}, {"mine"})) == {"yes": "c0", "mine": "c9"}
