"""Which label is which class of the fleet: what the owner says of it wins."""

from edge_client.learning.class_links import link_recognised, take_labels
from fleet_protocol.labels import LabelMap
from fleet_protocol.messages import ClassAssignment, ClassInfo

CLASSES = (ClassInfo("c0", "yes"), ClassInfo("c1", "stop"))


def test_a_label_that_the_aggregator_took_for_a_class_gives_it_back_when_its_clips_get_the_class_s_name():
    labels = link_recognised(LabelMap(8).add("halt"), [ClassAssignment(0, "c1")])
    assert labels.class_ids == ("c1",)
    renamed = take_labels(labels, ["stop"], CLASSES)
    assert dict(zip(renamed.names, renamed.class_ids, strict=True)) == {"halt": None, "stop": "c1"}


def test_an_owner_who_has_clips_under_both_names_means_two_sounds():
    labels = link_recognised(LabelMap(8).add("halt"), [ClassAssignment(0, "c1")])
    both = take_labels(labels, ["halt", "stop"], CLASSES)
    assert dict(zip(both.names, both.class_ids, strict=True)) == {"halt": "c1", "stop": None}


def test_a_class_that_has_a_slot_keeps_it_and_the_owner_is_told_how_to_make_both_one(caplog):
    labels = LabelMap(8).add("stop", "c1").add("halt")
    with caplog.at_level("INFO"):
        assert link_recognised(labels, [ClassAssignment(1, "c1")]) == labels
        assert link_recognised(labels, [ClassAssignment(0, "c1")]) == labels
    assert [record.getMessage().count("'halt'") for record in caplog.records] == [1]
    assert "auricle-edge clips relabel --label OLD NEW" in caplog.text


def test_a_slot_that_the_device_does_not_use_is_left_out_with_a_warning(caplog):
    labels = LabelMap(8).add("halt").add("stop", "c1")
    assert link_recognised(labels, [ClassAssignment(7, "c2"), ClassAssignment(9, "c1")]) == labels
    assert caplog.text.count("which this device does not use") == 2
