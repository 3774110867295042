"""What a page says of a round's new sounds: which reports became one class, and how alike they are."""

from aggregator_server.rounds.replies import describe_round
from aggregator_server.schemas import DiscoveryInfo, GroupInfo, ReportInfo
from aggregator_server.web.dashboard.rendering import environment
from aggregator_server.web.dashboard.round_figures import describe, new_sounds_of

NAMES = {f"{number:032x}": f"device {number}" for number in range(10)}


def test_reports_of_one_sound_share_a_letter_and_are_alike(fleet):
    found = new_sounds_of(describe_round(fleet.store, fleet.run_round()))
    assert [(report.letter, report.name, report.device) for report in found.reports] == [
        ("A", "stop", "device 1"),
        ("A", "Stop", "device 2"),
        ("B", "go", "device 3"),
    ]
    assert [row[index] for index, row in enumerate(found.matrix)] == [100, 100, 100]
    assert found.matrix[0][1] > 90 > found.matrix[0][2]


def found_of(similarity, groups, *, count=None, compared=None, **details):
    reports = tuple(ReportInfo(f"{number:032x}", 2, None) for number in range(count or len(similarity)))
    known = tuple(GroupInfo(f"c{index}", members, known=index == 0) for index, members in enumerate(groups))
    details |= {"compared": compared or [*range(len(similarity))], "similarity": similarity}
    return describe(DiscoveryInfo(reports, known, (), details), NAMES)


def test_what_was_a_class_of_the_fleet_already_is_told_apart():
    found = found_of([[1.0]], ((0, 1), (2,)), count=3, compared=[2])
    assert [(report.letter, report.device, report.class_id) for report in found.reports] == [("B", "device 2", "c1")]
    assert found.known == (("device 0", "", "c0"), ("device 1", "", "c0"))


def test_a_sentence_says_what_decided():
    found = found_of([[1.0, 0.93], [0.93, 1.0]], ((0, 1),), counted_by="names")
    shown = environment().get_template("_parts.html").module.new_sounds_tables(found)
    assert "Their owners' names for them said how many classes they are" in " ".join(
        str(shown).replace("&#39;", "'").split()
    )
    assert shown.count('<a href="/fleet/') == 2
    assert ">93</td>" in shown
