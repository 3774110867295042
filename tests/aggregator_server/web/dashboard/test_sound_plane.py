"""The picture of a round's new sounds: where reports stand, on which scale, and when a sentence says more."""

import itertools
import math

import pytest

from aggregator_server.rounds.views.replies import describe_round
from aggregator_server.schemas import DiscoveryInfo, GroupInfo, ReportInfo
from aggregator_server.web.dashboard.rendering import environment
from aggregator_server.web.dashboard.sound_plane import plane_of

NAMES = {f"{number:032x}": f"device {number}" for number in range(10)}
UNIT = 92.0  # of the picture, for directions whose distance is 1


def test_reports_of_one_sound_stand_together_and_share_a_letter(fleet):
    discovery = describe_round(fleet.store, fleet.run_round()).discovery
    plane = plane_of(discovery, NAMES)
    assert [(dot.letter, dot.name, dot.device) for dot in plane.dots] == [
        ("A", "stop", "device 1"),
        ("A", "Stop", "device 2"),
        ("B", "go", "device 3"),
    ]
    first, second, other = ((dot.x, dot.y) for dot in plane.dots)
    assert distance(first, second) < distance(first, other) / 3
    assert plane.drawn
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


def figure(plane):
    return environment().get_template("_parts.html").module.plane_figure(plane)


def compared(similarity, groups, **details):
    count = len(similarity)
    details |= {"compared": [*range(count)], "projection": [[0.0, 0.0]] * count, "similarity": similarity}
    return plane_of(discovery_of(details, groups, count), NAMES)


def alike(*cosines):
    """The similarities of directions in one plane, whose angles to the first have these cosines."""
    angles = [math.acos(cosine) for cosine in (1.0, *cosines)]
    return [[math.cos(one - other) for other in angles] for one in angles]


@pytest.mark.parametrize("near", [0.99, 0.93, 0.5])
def test_the_scale_is_the_same_in_every_picture(near):
    plane = compared(alike(near, -1.0), ((0, 1), (2,)), joins_from=0.8)
    first, second, other = ((dot.x, dot.y) for dot in plane.dots)
    assert distance(first, second) == pytest.approx(UNIT * math.sqrt(2 - 2 * near), abs=0.2)
    assert distance(first, other) == pytest.approx(2 * UNIT, abs=0.2)
    assert all(0 < dot.x < 320 and 0 < dot.y < 220 for dot in plane.dots)
    assert plane.reach == pytest.approx(UNIT * math.sqrt(0.4), abs=0.1)
    assert (distance(first, second) < plane.reach) == (near > 0.8)
    assert f"h {plane.reach} v" in figure(plane)
    assert "(0.80 alike)" in figure(plane)


def test_sounds_that_are_alike_stand_together_however_many_there_are():
    plane = compared([[1.0, 0.97, 0.97], [0.97, 1.0, 0.97], [0.97, 0.97, 1.0]], ((0, 1, 2),))
    assert all(distance((a.x, a.y), (b.x, b.y)) < 30 for a, b in itertools.combinations(plane.dots, 2))


TOGETHER, APART = ((0, 1),), ((0,), (1,))


@pytest.mark.parametrize(
    ("groups", "details", "words"),
    [
        (TOGETHER, {"joins_from": 0.8}, "Two devices reported it. The reports are 0.93 alike (1: the same); the fleet"),
        (TOGETHER, {"joins_from": 0.8}, "the fleet joins from 0.80."),
        (APART, {"joins_from": 0.95}, "Two new sounds were reported, and are not one class. The reports are 0.93"),
        (TOGETHER, {"counted_by": "names"}, "(1: the same). Their owners' names for them said how many classes they"),
    ],
)
def test_below_three_reports_a_sentence_says_it(groups, details, words):
    plane = compared([[1.0, 0.93], [0.93, 1.0]], groups, **details)
    shown = figure(plane)
    assert words in " ".join(str(shown).replace("&#39;", "'").split())
    assert "<svg" not in shown
    assert plane.matrix == ()
    assert shown.count('<a href="/fleet/') == 2
    alone = figure(compared([[1.0]], ((0,),)))
    assert "One device reported a new sound." in alone
    assert "alike" not in alone
