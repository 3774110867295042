"""Prototypes: the rule that combines them, and what a round's uploads lead to."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator_server.aggregation.contract import Assigned, UploadTerms
from aggregator_server.aggregation.prototype_mean import RULE, combine, geometric_shares
from aggregator_server.errors import MalformedUpdateError
from aggregator_server.strategies.prototypes import aggregate, check
from fleet_protocol.methods.setting import complete
from tests.support.embedded_words import CENTRES, NUMBERS, SETTINGS
from tests.support.prototype_rounds import PUBLIC, inputs, upload

TERMS = UploadTerms("0" * 64, 120, PUBLIC.class_ids, SETTINGS)


def off(result, word, class_id):
    """How far the fleet's prototype lies from a word, in numbers that have about 1 within a class."""
    mean = result.prototypes.means[result.prototypes.class_ids.index(class_id), 0]
    return float(np.linalg.norm(mean - CENTRES[word]))


def test_a_class_is_the_mean_over_its_devices_whoever_came_first():
    given = [upload(n, ("c0", "c1"), takes=n) for n in (1, 2, 3)]
    result = aggregate(inputs(*given, aggregation={"centre": "mean", "vote_cap": 2}))
    rows = np.stack([item.read()["prototypes"][:, 0] for item in given])
    expected = (rows * np.array([1, 2, 2])[:, None, None]).sum(axis=0) / 5
    np.testing.assert_allclose(result.prototypes.means[:, 0], expected, rtol=1e-5)
    assert result.prototypes.class_ids == ("c0", "c1")
    assert result.prototypes.devices.tolist() == [3, 3]
    again = aggregate(inputs(*given[::-1], aggregation={"centre": "mean", "vote_cap": 2}))
    assert again.prototypes.pack() == result.prototypes.pack()
    assert result.consensus is None


def test_a_new_sound_is_provisional_until_three_devices_contributed():
    first = aggregate(inputs(upload(1, ("c0",), {4: "stop"}), upload(2, ("c1",))))
    assert first.assignments == (Assigned(f"{1:032x}", 4, "c4"),)
    assert first.prototypes.provisional == ("c4",)  # classes of the first public set never are
    grown = {"public_set": first.public_set, "state": first.state, "round_id": 6}
    second = aggregate(inputs(upload(2, ("c1",), {9: "stop"}), upload(3, ("c2",), {5: "stop"}), **grown))
    assert {item.class_id for item in second.assignments} == {"c4"}
    assert second.prototypes.provisional == ()
    assert second.details["aggregation"]["devices"] == {"c0": 1, "c1": 1, "c2": 1, "c4": 3}
    assert off(second, "stop", "c4") < off(first, "stop", "c4")


def test_a_device_has_one_vote_however_often_it_uploads_and_none_once_it_is_revoked():
    state = aggregate(inputs(upload(1, ("c0",)), upload(2, ("c0",), takes=9))).state
    result = aggregate(inputs(upload(1, ("c0",), takes=20), state=state))
    assert result.prototypes.devices.tolist() == [2]
    alone = aggregate(inputs(upload(1, ("c0",), takes=20)))
    revoked = aggregate(inputs(upload(1, ("c0",), takes=20), state=state, revoked=frozenset({f"{2:032x}"})))
    assert revoked.prototypes.pack() == alone.prototypes.pack()
    withdrawn = aggregate(inputs(upload(1, ("c1",)), state=state))
    assert withdrawn.prototypes.devices.tolist() == [1, 1]


@pytest.mark.parametrize("place", [1, 3, 5])
def test_one_liar_among_five_does_not_move_a_class(place):
    honest = [upload(n, ("c0",)) for n in range(1, 6) if n != place]
    liar = upload(place, ("c0",), takes=1_000, said=CENTRES["no"] * 50)
    truth = aggregate(inputs(*honest))
    result = aggregate(inputs(*honest, liar))
    assert off(result, "yes", "c0") < off(truth, "yes", "c0") + 1.0
    believing = aggregate(inputs(*honest, liar, aggregation={"centre": "mean"}))
    assert off(believing, "yes", "c0") > 20
    away = result.details["aggregation"]["distances"]["c0"]
    assert max(away, key=away.get) == f"{place:032x}"


@pytest.mark.parametrize(
    ("document", "arrays", "message"),
    [
        ({"known": ()}, {}, "every class that the upload names has a prototype"),
        ({}, {"counts": np.zeros(2, np.float32)}, "at least one clip, not of 0"),
        ({}, {"counts": np.ones(3, np.float32)}, "counts"),
        ({}, {"prototypes": np.full((2, 1, NUMBERS), np.inf, np.float32)}, "finite"),
        ({}, {"impressions": np.zeros((2, 1, 1, NUMBERS), np.float32)}, "'impressions' does not belong"),
    ],
)
def test_an_upload_that_does_not_fit_is_refused(document, arrays, message):
    good = upload(1, ("c0",), {4: "stop"})
    check(TERMS, good.update, good.read())
    with pytest.raises(MalformedUpdateError, match=message):
        check(TERMS, dataclasses.replace(good.update, **document), good.read() | arrays)


SAME = np.eye(3)


def values(**given):
    return complete("the rule", RULE.settings, given)


@given(st.integers(0, 1_000), st.integers(3, 12), st.floats(1.0, 1e6))
@settings(max_examples=60)
def test_less_than_half_of_the_devices_cannot_move_the_geometric_median_far(seed, honest, distance):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(honest, 3))
    lies = np.full(((honest - 1) // 2, 3), distance * 100)
    counts = np.full(honest + len(lies), 5.0)
    found = combine(np.concatenate([points, lies]), counts, SAME, values())
    share = len(lies) / (honest + len(lies))
    furthest = np.linalg.norm(points - points.mean(axis=0), axis=1).max()
    bound = furthest * 2 * (1 - share) / (1 - 2 * share)  # Minsker 2015, lemma 2.1
    assert np.linalg.norm(found - points.mean(axis=0)) <= bound + 1e-6
    if len(lies):
        plain = combine(np.concatenate([points, lies]), counts, SAME, values(centre="mean"))
        assert np.linalg.norm(plain - points.mean(axis=0)) > share * distance * 100


def test_the_geometric_median_minimises_the_sum_of_the_weighted_distances():
    rng = np.random.default_rng(3)
    points, weights = rng.normal(size=(9, 4)), rng.integers(1, 6, 9).astype(float)
    middle = geometric_shares(points, weights) @ points

    def cost(point):
        return weights @ np.linalg.norm(points - point, axis=1)

    assert all(cost(middle) < cost(middle + 0.01 * rng.normal(size=4)) for _ in range(50))
