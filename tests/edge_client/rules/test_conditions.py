"""When a rule applies: to which sounds, when, how often, while what else is heard, and to a level alone."""

from datetime import datetime

import pytest

from edge_client.config.rules import RuleConfig
from edge_client.events import Event
from edge_client.rules.conditions import Condition, GoingOn, Occurrence, told

NOON = datetime(2026, 6, 1, 12).timestamp()


def rule(**keys):
    return RuleConfig(name="r", mqtt="t", **keys)


def event(after_s=0.0, label="kettle", score=0.9, level_db=-30.0, ended=None, heard_by=""):
    kind = "unknown" if label == "unknown" else "detected"
    return Event(NOON + after_s, kind, label, None, score, level_db, ended, heard_by)


def applied(condition, *events):
    """Whether it applies to each of some events, in their order."""
    going_on, found = GoingOn(), []
    for one in events:
        going_on.take(one, follows=False)
        found.append(condition.applies(Occurrence.of_event(one), going_on))
    return found


@pytest.mark.parametrize(
    ("keys", "yes", "no"),
    [
        ({}, {"label": "unknown"}, None),
        ({"labels": ("bell", "kettle")}, {}, {"label": "unknown"}),
        ({"labels": ("unknown",)}, {"label": "unknown"}, {}),
        ({"inputs": ("hall",)}, {"heard_by": "hall"}, {"heard_by": "kitchen"}),
        ({"least_score": 0.8}, {"score": 0.8}, {"score": 0.79}),
        ({"least_level_db": -40.0}, {"level_db": -40.0}, {"level_db": -41.0}),
        ({"hours": ("11:00-13:00",)}, {}, {"after_s": 3600.0}),
        ({"hours": ("22:00-13:00",)}, {"after_s": -7 * 3600.0}, {"after_s": 3600.0}),
    ],
)
def test_a_rule_looks_at_what_it_names_alone(keys, yes, no):
    assert applied(Condition(rule(**keys)), event(**yes)) == [True]
    if no is not None:
        assert applied(Condition(rule(**keys)), event(**no)) == [False]


def test_a_message_says_what_an_unknown_sound_may_be():
    unknown = Event(NOON, "unknown", "unknown", None, 0.1, -30.0, guess="glass, clink")
    messages = [
        told(rule(message="{label}? {guess}"), Occurrence.of_event(one), "shelf")["message"]
        for one in (unknown, event())
    ]
    assert messages == ["unknown? glass, clink", "kettle? "]


def test_it_counts_pauses_and_is_the_first_of_a_day(monkeypatch):
    often = Condition(rule(times=3, within_min=1.0))
    assert applied(often, *(event(at) for at in (0, 10, 61, 62, 63, 64, 70))) == [False] * 3 + [True] + [False] * 2 + [
        True
    ]
    pausing = Condition(rule(pause_min=5.0))
    assert applied(pausing, event(0), event(299), event(301)) == [True, False, True]
    assert applied(Condition(rule(pause_min=5.0), last=NOON - 60), event(0), event(241)) == [False, True]
    assert applied(Condition(rule(pause_min=5.0), last=NOON + 9e6), event(0)) == [True]  # the clock was put back
    first = Condition(rule(first_of_day=True))
    assert applied(first, event(0), event(60), event(86_400), event(86_401)) == [True, False, True, False]


def test_it_applies_only_while_or_unless_another_sound_goes_on():
    only, unless = Condition(rule(labels=("kettle",), only_while=("fan",))), Condition(rule(unless=("fan",)))
    going_on = GoingOn()
    fan, over = event(-60, "fan"), event(-60, "fan", ended=NOON + 100)

    def both(after_s):
        found = Occurrence.of_event(event(after_s))
        return only.applies(found, going_on), unless.applies(found, going_on)

    assert both(0) == (False, True)
    going_on.take(fan, follows=False)
    going_on.take(fan, follows=True)
    assert both(1) == (True, False)
    going_on.take(over, follows=True)
    assert both(101) == (False, True)
    going_on.take(event(110, "fan"), follows=False)  # a word: it has no end
    assert both(115) == (True, False)
    assert both(121) == (False, True)


def test_a_level_applies_once_for_each_time_that_it_was_kept_long_enough():
    loud = Condition(rule(louder_than_db=-20.0, louder_for_s=1.0, inputs=("hall",)))
    levels = [-10, -10, -30, -10, -10, -10, -10, -30, -10]
    assert [loud.loud("hall", level, 0.5) for level in levels] == [False, True, False, False, True] + [False] * 4
    found = Occurrence.of_level(NOON, "hall", -10.0, "r")
    assert loud.applies(found, GoingOn())
    assert found.document["kind"] == "loud"
    assert not loud.applies(Occurrence.of_level(NOON, "kitchen", -10.0, "r"), GoingOn())
    assert not loud.applies(Occurrence.of_event(event(heard_by="hall")), GoingOn())
    assert not Condition(rule()).applies(found, GoingOn())
