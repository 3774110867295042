"""Prototypes: a sound that the fleet knows is told by its mean embedding, and rows stand for one that it does not."""

import dataclasses

import numpy as np
import pytest

from aggregator_server.aggregation.contract import Assigned, Contribution, RoundInputs, UploadTerms
from aggregator_server.discovery.new_sounds import check_arrays, recognise
from aggregator_server.discovery.public_embedding import PublicEmbedding
from aggregator_server.errors import MalformedUpdateError
from aggregator_server.rounds.plan import make_plan
from aggregator_server.schemas import RoundRequest
from fleet_protocol.feature_settings import PRESETS
from fleet_protocol.messages import ClassReport, Update
from tests.support.embedded_words import NUMBERS, SETTINGS, SPREAD, WORDS, clips, embedded_public_set


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def public_set(rng):
    return embedded_public_set(rng)


def upload(device_id, known, met, rng):
    """An upload of a device that has clips of known words, by class, and met sounds, by slot."""
    words = [*(WORDS[int(class_id[1:])] for class_id in known), *met.values()]
    arrays = {"prototypes": np.stack([clips(word, 10, rng).mean(axis=0) for word in words])}
    update = Update(
        round_id=5,
        device_id=device_id,
        features="",
        public_set="",
        classes=known,
        clips=10,
        known=known,
        reports=tuple(ClassReport(slot, None, 10) for slot in met),
    )
    return Contribution(update, lambda: arrays)


def settle(public_set, *contributions, **changes):
    consensus = np.zeros((len(public_set.labels), len(public_set.classes)), np.float32)
    inputs = RoundInputs(
        round_id=5,
        plan=make_plan(RoundRequest("zero_shot")),
        public_set=public_set,
        consensus=consensus,
        contributions=contributions,
        **changes,
    )
    return recognise(inputs, contributions)[1]


def test_a_sound_that_the_fleet_knows_under_another_name_is_that_class(public_set, rng):
    found = settle(public_set, upload("a", ("c0", "c1"), {4: "down"}, rng), upload("b", ("c1", "c2"), {9: "down"}, rng))
    assert found.assignments == (Assigned("a", 4, "c3"), Assigned("b", 9, "c3"))
    assert found.public_set is public_set
    assert found.details["groups"] == [{"class_id": "c3", "members": [0, 1], "known": True}]


def test_beside_a_known_sound_new_ones_are_grouped_whatever_number_is_told(public_set, rng):
    uploads = [
        upload("a", ("c0", "c1"), {4: "stop"}, rng),
        upload("b", ("c1", "c2"), {4: "up", 5: "go"}, rng),  # its owner has two names for "up"
        upload("c", ("c0", "c3"), {4: "no", 5: "stop"}, rng),
    ]
    for count in (None, 3):
        found = settle(public_set, *uploads, new_classes=count)
        classes = {(item.device_id, item.slot): item.class_id for item in found.assignments}
        assert classes["a", 4] == classes["c", 5]
        assert classes["c", 4] == "c1"
        assert len({classes["a", 4], classes["b", 4], classes["b", 5]} - {"c0", "c1", "c2", "c3"}) == 3


def test_an_owner_who_gives_the_clips_another_label_is_believed(public_set, rng):
    again = upload("a", ("c0", "c1"), {5: "down"}, rng)
    found = settle(public_set, again, assigned={("a", 4): "c3"})
    assert found.assignments == (Assigned("a", 5, "c4"),)
    assert found.public_set.class_ids[-1] == "c4"


def test_the_rows_of_a_new_class_lie_around_the_mean_of_its_devices_as_clips_of_a_class_do(public_set, rng):
    space = PublicEmbedding(public_set)
    prototypes = np.stack([clips("go", 10, rng).mean(axis=0) for _ in range(3)])
    rows = np.concatenate([space.draw(prototypes, np.random.default_rng(seed)) for seed in range(100)])[:, 0]
    assert len(rows) == 6_000  # at a time twice as many as there are recordings of a class
    np.testing.assert_allclose(rows.mean(axis=0), prototypes.mean(axis=(0, 1)), atol=0.1)
    np.testing.assert_allclose(np.cov(rows.T), (1 + 1 / 3) * SPREAD.T @ SPREAD, atol=0.8)
    assert space.nearest(prototypes.mean(axis=0))[1] < 0.8


@pytest.mark.parametrize(
    ("settings", "shape", "message"),
    [
        (PRESETS["gudur"], (2, *PRESETS["gudur"].shape), "array 'prototypes' does not belong to this upload"),
        (SETTINGS, (2, NUMBERS), "prototypes"),
        (SETTINGS, (1, 1, NUMBERS), "prototypes"),
        (SETTINGS, None, "array 'prototypes' is missing"),
    ],
)
def test_prototypes_that_do_not_fit_are_refused(settings, shape, message, rng):
    update = upload("a", ("c0",), {4: "go"}, rng).update
    arrays = {} if shape is None else {"prototypes": np.zeros(shape, np.float32)}
    terms = UploadTerms("", 120, ("c0", "c1"), settings)
    with pytest.raises(MalformedUpdateError, match=message):
        check_arrays(terms, update, arrays, {})
    fitting = {"prototypes": np.zeros((2, *SETTINGS.shape), np.float32)}
    check_arrays(dataclasses.replace(terms, settings=SETTINGS), update, fitting, {})
