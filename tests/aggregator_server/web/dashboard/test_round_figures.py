"""What a page shows of a round: who is late, and what became of each device's part."""

from aggregator_server.web.dashboard.round_figures import open_round_view, round_view


def states(view):
    return [f"{part.info.name} {part.state}" for part in view.parts]


def test_who_takes_more_than_twice_as_long_as_the_others_is_late(fleet):
    round_id = fleet.open(100.0)
    assert {part.state for part in round_view(fleet.store, round_id, 400.0).parts} == {"waiting"}  # nobody to compare
    fleet.upload(fleet.devices[0], 110.0)
    assert round_view(fleet.store, round_id, 400.0).late == 0  # one of four does not tell how long the others need
    fleet.upload(fleet.devices[1], 130.0)
    in_time = open_round_view(fleet.store, 139.0)
    assert states(in_time) == ["device 3 waiting", "device 4 waiting", "device 1 uploaded", "device 2 uploaded"]
    assert in_time.late == 0
    late = open_round_view(fleet.store, 141.0)  # the median took 20 s
    assert states(late)[:2] == ["device 3 late", "device 4 late"]
    assert late.late == 2


def test_after_a_round_it_says_what_became_of_each_part(fleet):
    round_id = fleet.open(100.0, quorum=0.5, deadline_s=60.0)
    for device in fleet.devices[:3]:
        fleet.upload(device, 110.0)
    assert fleet.advance(161.0) == round_id
    fleet.learned(fleet.devices[0], round_id)
    assert open_round_view(fleet.store, 170.0) is None
    after = states(round_view(fleet.store, round_id, 170.0))
    assert after == ["device 4 missing", "device 2 uploaded", "device 3 uploaded", "device 1 learned"]
