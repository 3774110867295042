"""The pictures of a round: who is late, and where reports of new sounds stand."""

import itertools

from aggregator_server.rounds.lifecycle import cancel_round
from aggregator_server.rounds.views import describe_round
from aggregator_server.schemas import DiscoveryInfo, GroupInfo, ReportInfo
from aggregator_server.web.dashboard.round_figures import open_round_view, plane_of, round_view

NAMES = {f"{number:032x}": f"device {number}" for number in range(10)}


def states(view):
    return [(part.info.name, part.state) for part in view.parts]


def test_who_takes_more_than_twice_as_long_as_the_others_is_late(fleet):
    round_id = fleet.open(100.0)
    assert {state for _, state in states(round_view(fleet.store, round_id, 400.0))} == {"busy"}  # nobody to compare
    fleet.upload(fleet.devices[0], 110.0)
    assert round_view(fleet.store, round_id, 400.0).late == 0  # one of four does not tell how long the others need
    fleet.upload(fleet.devices[1], 130.0)
    in_time = open_round_view(fleet.store, 139.0)
    assert states(in_time) == [
        ("device 3", "busy"), ("device 4", "busy"), ("device 1", "in"), ("device 2", "in"),
    ]  # fmt: skip
    assert (in_time.share, in_time.late) == (50, 0)
    late = open_round_view(fleet.store, 141.0)  # the median took 20 s
    assert states(late)[:2] == [("device 3", "late"), ("device 4", "late")]
    assert late.late == 2


def test_after_a_round_it_says_what_became_of_each_part(fleet):
    round_id = fleet.open(100.0, quorum=0.5, deadline_s=60.0)
    for device in fleet.devices[:3]:
        fleet.upload(device, 110.0)
    assert fleet.advance(161.0) == round_id
    fleet.learned(fleet.devices[0], round_id)
    assert open_round_view(fleet.store, 170.0) is None
    assert states(round_view(fleet.store, round_id, 170.0)) == [
        ("device 4", "missing"), ("device 2", "in"), ("device 3", "in"), ("device 1", "learned"),
    ]  # fmt: skip


def test_reports_of_one_sound_stand_together_and_share_a_letter(fleet):
    discovery = describe_round(fleet.store, fleet.run_round()).discovery
    plane = plane_of(discovery, NAMES)
    assert [(dot.letter, dot.name, dot.device) for dot in plane.dots] == [
        ("A", "stop", "device 1"), ("A", "Stop", "device 2"), ("B", "go", "device 3"),
    ]  # fmt: skip
    first, second, other = ((dot.x, dot.y) for dot in plane.dots)
    assert distance(first, second) < distance(first, other) / 3
    assert all(0 < dot.x < 320 and 0 < dot.y < 220 for dot in plane.dots)
    hundredths = [[cell for cell, _ in row] for row in plane.matrix]
    assert [row[index] for index, row in enumerate(hundredths)] == [100, 100, 100]
    assert hundredths[0][1] > 90 > hundredths[0][2]
    assert all(hundredths[i][j] == hundredths[j][i] for i, j in itertools.combinations(range(3), 2))


def distance(one, other):
    return ((one[0] - other[0]) ** 2 + (one[1] - other[1]) ** 2) ** 0.5


def discovery_of(details, groups=((0, 1), (2,)), count=3):
    reports = tuple(ReportInfo(f"{number:032x}", 2, None) for number in range(count))
    found = tuple(GroupInfo(f"c{index}", members, known=index == 0) for index, members in enumerate(groups))
    return DiscoveryInfo(reports, found, (), details)


def test_only_the_reports_that_were_compared_have_a_place():
    details = {"compared": [2], "projection": [[0.5, -0.5]], "similarity": [[1.0]]}
    plane = plane_of(discovery_of(details), NAMES)
    assert [(dot.letter, dot.device, dot.x, dot.y) for dot in plane.dots] == [("B", "device 2", 160.0, 110.0)]
    assert plane.known == (("device 0", "", "c0"), ("device 1", "", "c0"))
    assert plane.matrix == ()


def test_what_an_older_release_kept_is_shown_as_far_as_it_is_sure():
    points = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    assert len(plane_of(discovery_of({"projection": points}), NAMES).dots) == 3
    assert plane_of(discovery_of({"projection": points[:2]}), NAMES).dots == ()  # nobody knows of which reports
    assert plane_of(discovery_of({}), NAMES).dots == ()


def test_a_round_that_was_cancelled_says_who_was_missing(fleet):
    round_id = fleet.open(100.0)
    cancel_round(fleet.store, round_id, 110.0)
    assert {state for _, state in states(round_view(fleet.store, round_id, 120.0))} == {"missing"}
