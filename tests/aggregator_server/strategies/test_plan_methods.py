"""Round plans: every setting has a type, a range and a default; what is wrong is refused with what is allowed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator_server.strategies.plan_methods import complete, known_settings
from fleet_protocol.errors import PlanError
from fleet_protocol.messages import Choice, parse, to_json

PARTS = ("local", "aggregation", "selection", "personalisation")
CASES = [(part, name) for part in PARTS for name in known_settings(part)]


@pytest.mark.parametrize(("part", "name"), CASES)
def test_defaults_fill_every_setting_and_are_themselves_allowed(part, name):
    full = complete(part, Choice(name))
    assert full.settings == {key: setting.default for key, setting in known_settings(part)[name].items()}
    assert complete(part, full) == full


def test_a_setting_that_was_given_is_kept_and_an_integer_becomes_a_float_where_one_is_meant():
    full = complete("local", Choice("zero_shot", {"epochs": 3, "learning_rate": 1}))
    assert full.settings["epochs"] == 3
    assert full.settings["learning_rate"] == 1.0
    assert type(full.settings["learning_rate"]) is float
    assert parse(Choice, to_json(full)) == full


@pytest.mark.parametrize(
    ("part", "choice", "words"),
    [
        ("local", Choice("zero-shot"), ["'zero-shot'", "zero_shot"]),
        ("local", Choice("zero_shot", {"epoch": 3}), ["'epoch'", "epochs", "distill_learning_rate"]),
        ("local", Choice("zero_shot", {"epochs": 2.5}), ["'epochs'", "int", "2.5"]),
        ("local", Choice("zero_shot", {"epochs": True}), ["'epochs'", "int", "True"]),
        ("local", Choice("zero_shot", {"epochs": 0}), ["'epochs'", "1", "10000", "not 0"]),
        ("local", Choice("zero_shot", {"learning_rate": 10**400}), ["'learning_rate'"]),
        ("aggregation", Choice("label_wise", {"normalise": 1}), ["'normalise'", "bool", "1"]),
        (
            "aggregation",
            Choice("mean"),
            ["'mean'", "krum", "label_wise", "lpa", "median", "multi_krum", "weighted_mean"],
        ),
        ("aggregation", Choice("lpa", {"v": 0.1}), ["'v'", "v_l", "v_h", "clip_norm", "server_optimiser"]),
        ("aggregation", Choice("lpa", {"v_h": 0.5}), ["'v_h'", "0.49", "0.5"]),
        ("aggregation", Choice("median", {"server_optimiser": "sgd"}), ["none, adam, yogi, adagrad", "'sgd'"]),
        ("selection", Choice("all", {"share": 0.5}), ["'share'", "seen_within_s"]),
        ("selection", Choice("most"), ["'most'", "all, dynamic, size_proportional, uniform"]),
        ("selection", Choice("uniform", {"fraction": 1.5}), ["'fraction'", "0", "1", "1.5"]),
        ("personalisation", Choice("none", {"epochs": 1}), ["'epochs'", "none at all"]),
    ],
)
def test_what_is_refused_is_named_with_what_is_allowed(part, choice, words):
    with pytest.raises(PlanError) as refused:
        complete(part, choice)
    assert all(word in str(refused.value) for word in words)


NUMBERS = [(name, s) for name, s in known_settings("local")["zero_shot"].items() if type(s.default) in (int, float)]


# No subnormal numbers: the runtime of a 32-bit Pi, once loaded, has its process round them to zero.
@settings(derandomize=True)
@given(st.sampled_from(NUMBERS), st.floats(allow_subnormal=False) | st.integers() | st.text(max_size=3) | st.booleans())
def test_whatever_is_accepted_lies_in_the_range_and_has_the_type(case, value):
    name, setting = case
    try:
        result = complete("local", Choice("zero_shot", {name: value})).settings[name]
    except PlanError:
        return
    assert type(result) is type(setting.default)
    assert setting.low <= result <= setting.high
