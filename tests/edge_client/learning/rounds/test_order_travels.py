"""Phrases that one device was taught, heard by another one: by the order that travelled, and without it."""

import dataclasses
import shutil

import numpy as np
import pytest

from aggregator_server.aggregation.contract import Contribution
from aggregator_server.schemas import RoundRequest
from aggregator_server.strategies.prototypes import aggregate
from edge_client.config.sections import DetectorConfig
from edge_client.daemon.listening_loop import load_listening
from edge_client.detection.detector import Detector
from edge_client.detection.scores import STATES
from edge_client.features.front_end import open_front_end
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.limits import STATES_BEFORE, WORD_S
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import Choice, ClassBacking, ClassInfo, Update, parse
from fleet_protocol.numbers.tensors import unpack
from tests.support.phrases import phrases, said, write_takes
from tests.support.round_inputs import inputs
from tests.support.round_work import work_of
from tests.support.sounds import RATE
from tests.support.taught_device import Device

pytestmark = pytest.mark.slow
PUBLIC = ("yes", "no", "seven", "marvin")
OWN = "please raise the kitchen lights"  # of the device that was not taught the others, too


def public_set(folder, settings):
    takes = said(folder, PUBLIC)
    features = open_front_end(settings)(
        np.concatenate([[take[: settings.clip_samples] for take in takes[word]] for word in PUBLIC])
    )
    classes = tuple(ClassInfo(f"c{index}", word) for index, word in enumerate(PUBLIC))
    labels = np.repeat(np.arange(len(PUBLIC)), [len(takes[word]) for word in PUBLIC])
    return PublicSet(settings, classes, features, labels, np.zeros(len(labels), np.bool_))


def sent(device, work, asked):
    how = Choice("prototype_mean", {"order": True} if asked else {})
    device.do(dataclasses.replace(work, plan=dataclasses.replace(work.plan, aggregation=how)))
    return unpack(device.state.outbox.read(device.state.outbox.update_path(work.round_id)))


def test_another_device_hears_a_phrase_in_order_and_an_owners_that_shares_its_end_does_not_stand_in_its_way(tmp_path):
    for name in ("teacher", "other"):
        (tmp_path / name).mkdir()
    teacher, other = (Device(tmp_path / name, find_bundle("words")) for name in ("teacher", "other"))
    takes, swapped = phrases(tmp_path / "said")
    for label, found in takes.items():
        write_takes(teacher.clips, label, found[:5])
    write_takes(other.clips, OWN, takes[OWN][5:9])
    public = public_set(tmp_path / "public", teacher.state.model.load(teacher.bundle).bundle.manifest.feature_settings)
    work = dataclasses.replace(work_of("prototypes"), public_set=teacher.keep(public.pack()), classes=public.classes)
    assert set(sent(teacher, work, asked=False)[0]) == {
        "prototypes",
        "counts",
    }  # by an aggregator of an earlier release
    arrays, document = sent(teacher, work, asked=True)
    assert set(arrays["before_states"].tolist()) <= {2, 3}
    assert STATES <= STATES_BEFORE
    assert 1 < arrays["before_lengths"].min() <= arrays["before_lengths"].max() < WORD_S

    upload = Contribution(parse(Update, document), lambda: arrays)
    result = aggregate(
        inputs(
            RoundRequest("prototypes"),
            [upload],
            public_set=public,
            model=None,
            consensus=np.zeros((len(public.labels), 4), np.float32),
        )
    )
    labels = teacher.state.model.load(teacher.bundle).progress.label_map.names
    class_of = {labels[one.slot]: one.class_id for one in result.assignments}
    heard = {}
    shutil.copytree(other.state.folder, tmp_path / "before")
    for ordered in (False, True):
        shutil.rmtree(other.state.folder)
        shutil.copytree(tmp_path / "before", other.state.folder)
        told = result.prototypes if ordered else dataclasses.replace(result.prototypes, order=None)
        learn = dataclasses.replace(
            work,
            kind="learn",
            public_set=other.keep(result.public_set.pack()),
            prototypes=other.keep(told.pack()),
            classes=result.public_set.classes,
            backing=tuple(ClassBacking(class_id, 2) for class_id in class_of.values()),
        )
        other.do(learn)
        assert not other.state.offers.refusals()
        heard[ordered] = [events(other, class_of, spoken) for spoken in (takes, swapped)]
    (before, wrongly_before), swapped_before = heard[False]
    (now, wrongly), swapped_now = heard[True]
    assert now >= before > 6
    assert wrongly < wrongly_before
    assert sum(swapped_now) < sum(swapped_before) / 4


def events(device, class_of, spoken):
    """How many takes of phrases, which nobody learned, a device hears as their class, and how many as another one."""
    loaded, rng = load_listening(device.config), np.random.default_rng(3)
    right = wrong = 0
    for label, found in spoken.items():
        for take in found[9:] if label != OWN else ():
            detector = Detector(loaded, DetectorConfig())
            stream = rng.normal(scale=0.003, size=5 * RATE).astype(np.float32)
            stream[RATE : RATE + len(take)] += take
            found_in = {
                heard.event.class_id
                for hop in np.split(stream, 20)
                for heard in detector.push(hop)
                if heard.event.class_id
            }
            right += class_of[label] in found_in
            wrong += bool(found_in - {class_of[label]})
    return right, wrong
