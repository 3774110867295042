"""The form that opens a round asks for what was typed, and for nothing else."""

import pytest

from aggregator_server import errors
from aggregator_server.rounds.plan import make_plan
from aggregator_server.rounds.views.choices import StrategyChoice
from aggregator_server.schemas import RECOMMENDED, RoundRequest
from aggregator_server.selection.draw import selections
from aggregator_server.strategies.registry import known_settings, strategies
from aggregator_server.web.dashboard.access import Form
from aggregator_server.web.dashboard.rounds import request_of, settings_of
from fleet_protocol.messages import Choice
from fleet_protocol.personalisations import personalisations

CHOICES = tuple(
    StrategyChoice(
        name=name, about="", cost="", is_recommended=name == "fedavg", upload_bytes=None, last_s=None, obstacle=None
    )
    for name in strategies()
)


def asked(**fields):
    return request_of(Form(list(fields.items())), CHOICES)


def as_shown(name):
    """What a browser sends of the settings page where nobody changes anything."""
    settings = settings_of(strategies()[name])
    return {"strategy": name, "with_settings": "yes"} | {
        field.name: field.value for field in (*settings.main, *settings.others)
    }


def test_the_recommended_strategy_alone_asks_for_the_recommended_plan():
    assert asked(strategy="fedavg") == RoundRequest(RECOMMENDED)
    assert asked(strategy="zero_shot") == RoundRequest("zero_shot")


@pytest.mark.parametrize("name", sorted(strategies()))
def test_a_page_that_nobody_changed_asks_for_the_defaults(name):
    assert asked(**as_shown(name)) == RoundRequest(name)
    assert make_plan(asked(**as_shown(name))).local.settings == make_plan(RoundRequest(name)).local.settings


def test_what_was_changed_is_asked_for():
    wanted = asked(
        **as_shown("fedavg")
        | {
            "set_epochs": "3",
            "set_restrict": "false",
            "set_learning_rate": "1e-3",
            "minutes": "5",
            "quorum": "80",
            "aggregation": "median",
            "selection": "uniform",
            "personalisation": "none",
            "new_classes": "2",
            "other_networks": "yes",
        }
    )
    assert wanted == RoundRequest(
        "fedavg",
        settings={"epochs": 3, "learning_rate": 0.001, "restrict": False},
        aggregation=Choice("median"),
        deadline_s=300.0,
        quorum=0.8,
        new_classes=2,
        selection=Choice("uniform"),
        personalisation=Choice("none"),
        other_networks=Choice("zero_shot"),
    )
    plan = make_plan(wanted)
    assert (plan.local.settings["epochs"], plan.aggregation.name) == (3, "median")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"set_epochs": "three"}, "epochs .* must be a whole number, not 'three'"),
        ({"minutes": "soon"}, "the deadline must be a number"),
        ({"new_classes": "1.5"}, "whole number, not '1.5'"),
    ],
)
def test_what_cannot_be_read_is_named(fields, words):
    with pytest.raises(errors.InvalidRequestError, match=words):
        asked(**as_shown("fedavg") | fields)
    with pytest.raises(errors.RefusedError, check=lambda error: error.code == "unknown_strategy"):
        asked(strategy="nonsense")


def test_every_method_that_can_be_chosen_is_explained():
    assert all(method.about for method in (*selections().values(), *personalisations().values()))
    for name, strategy in strategies().items():
        shown = settings_of(strategy)
        labels = {field.label for field in (*shown.main, *shown.others)}
        assert labels == set(known_settings("local")[strategy.local]), name
        assert shown.main or not labels, name
