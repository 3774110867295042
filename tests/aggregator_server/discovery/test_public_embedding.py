"""Prototypes: a sound that the fleet knows is told by its mean embedding, and rows stand for one that it does not."""

import dataclasses

import numpy as np
import pytest

from aggregator_server.aggregation.contract import Assigned, UploadTerms
from aggregator_server.discovery.new_sounds import recognise
from aggregator_server.discovery.public_embedding import PublicEmbedding
from aggregator_server.errors import MalformedUpdateError
from aggregator_server.strategies.upload_checks import check_arrays
from fleet_protocol.bundle.feature_settings import PRESETS
from tests.support.embedded_words import NUMBERS, SETTINGS, SPREAD, clips
from tests.support.prototype_rounds import PUBLIC, inputs, upload

RNG = np.random.default_rng(7)
A, B, C = (f"{number:032x}" for number in (1, 2, 3))


def settle(*contributions, **changes):
    return recognise(inputs(*contributions, **changes), contributions)


def test_a_sound_that_the_fleet_knows_under_another_name_is_that_class():
    found = settle(upload(1, ("c0", "c1"), {4: "down"}), upload(2, ("c1", "c2"), {9: "down"}))
    assert found.assignments == (Assigned(A, 4, "c3"), Assigned(B, 9, "c3"))
    assert found.public_set is PUBLIC
    assert found.details["groups"] == [{"class_id": "c3", "members": [0, 1], "known": True}]


def test_beside_a_known_sound_new_ones_are_grouped_whatever_number_is_told():
    uploads = [
        upload(1, ("c0", "c1"), {4: "stop"}),
        upload(2, ("c1", "c2"), {4: "up", 5: "go"}),  # its owner has two names for "up"
        upload(3, ("c0", "c3"), {4: "no", 5: "stop"}),
    ]
    for count in (None, 3):
        found = settle(*uploads, new_classes=count)
        classes = {(item.device_id, item.slot): item.class_id for item in found.assignments}
        assert classes[A, 4] == classes[C, 5]
        assert classes[C, 4] == "c1"
        assert len({classes[A, 4], classes[B, 4], classes[B, 5]} - {"c0", "c1", "c2", "c3"}) == 3


def test_an_owner_who_gives_the_clips_another_label_is_believed():
    again = upload(1, ("c0", "c1"), {5: "down"})
    found = settle(again, assigned={(A, 4): "c3"})
    assert found.assignments == (Assigned(A, 5, "c4"),)
    assert found.public_set.class_ids[-1] == "c4"


def test_the_rows_of_a_new_class_lie_around_the_mean_of_its_devices_as_clips_of_a_class_do():
    space = PublicEmbedding(PUBLIC)
    prototypes = np.stack([clips("go", 10, RNG).mean(axis=0) for _ in range(3)])
    rows = np.concatenate([space.draw(prototypes, np.random.default_rng(seed)) for seed in range(100)])[:, 0]
    assert len(rows) == 6_000  # at a time twice as many as there are recordings of a class
    np.testing.assert_allclose(rows.mean(axis=0), prototypes.mean(axis=(0, 1)), atol=0.1)
    np.testing.assert_allclose(np.cov(rows.T), (1 + 1 / 3) * SPREAD.T @ SPREAD, atol=0.8)
    assert max(space.cosines(prototypes.mean(axis=0)).values()) < 0.8


@pytest.mark.parametrize(
    ("settings", "shape", "message"),
    [
        (PRESETS["gudur"], (2, *PRESETS["gudur"].shape), "array 'prototypes' does not belong to this upload"),
        (SETTINGS, (2, NUMBERS), "prototypes"),
        (SETTINGS, (1, 1, NUMBERS), "prototypes"),
        (SETTINGS, None, "array 'prototypes' is missing"),
    ],
)
def test_prototypes_that_do_not_fit_are_refused(settings, shape, message):
    update = upload(1, ("c0",), {4: "go"}).update
    arrays = {} if shape is None else {"prototypes": np.zeros(shape, np.float32)}
    terms = UploadTerms("", 120, ("c0", "c1"), settings)
    with pytest.raises(MalformedUpdateError, match=message):
        check_arrays(terms, update, arrays, {})
    fitting = {"prototypes": np.zeros((2, *SETTINGS.shape), np.float32)}
    check_arrays(dataclasses.replace(terms, settings=SETTINGS), update, fitting, {})
