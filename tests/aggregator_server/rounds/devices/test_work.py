"""What all devices get of a round's work is read once, and neither out of date nor another device's."""

from aggregator_server.fleet.classes import rename_class


def test_who_reported_a_sound_that_is_a_class_now_gets_more_than_others(fleet):
    round_id = fleet.run_round(learn=False, new_classes=2)
    reported, other = fleet.devices[0], fleet.devices[3]
    for _ in range(2):
        work = fleet.work(reported)
        assert (work.kind, work.round_id, len(work.assignments)) == ("learn", round_id, 1)
        assert fleet.work(other).assignments == ()


def test_a_class_that_was_renamed_in_between_has_its_new_name(fleet):
    fleet.open()
    before = fleet.work(fleet.devices[0])
    rename_class(fleet.store, "c0", "another name")
    after = fleet.work(fleet.devices[1])
    assert [info.name for info in before.classes] != [info.name for info in after.classes]
    assert after.classes[0].name == "another name"
