"""What would have been heard at another sensitivity is what the detector's own decisions are at that threshold."""

import numpy as np
import pytest

from edge_client.config.sections import DetectorConfig
from edge_client.detection.posterior_handling import Decisions
from edge_client.detection.sensitivity import STEPS, StepCounts, step_at, threshold_at, together

LABELS, HOP_S = ("kettle", "bell"), 0.25
CONFIG = DetectorConfig(refractory_s=1.0, over_after_s=3.0)


@pytest.fixture(scope="module")
def scores():
    """Twelve minutes of averaged scores, float32 [hops, labels], which seldom are high."""
    rng = np.random.default_rng(4)
    hops = round(720 / HOP_S)
    logits = rng.normal(-3, 2, (hops, len(LABELS))) + 9 * (rng.random((hops, 1)) < 0.02)
    return (1 / (1 + np.exp(-logits))).astype(np.float32)


def test_each_step_has_as_many_detections_as_the_detector_would_have_had(scores):
    now = [7e5]
    counts = StepCounts(CONFIG, lambda: now[0])
    deciding = [
        Decisions(np.full(len(LABELS), threshold_at(step), np.float32)[:, None], LABELS, CONFIG, ["bell"])
        for step in range(STEPS + 1)
    ]
    expected = np.zeros((len(LABELS), STEPS + 1), int)
    for row in scores:
        now[0] += HOP_S
        counts.update({label: (float(score), 0.8) for label, score in zip(LABELS, row, strict=True)}, {"bell"}, {})
        for step, handler in enumerate(deciding):
            if (slot := handler.update(row, now[0])) is not None:
                expected[slot, step] += 1
    found = counts.to_json()
    assert [one["heard"] for one in found.values()] == expected.tolist()
    assert expected[:, STEPS].min() > expected[:, 0].max() > 0
    assert found["bell"]["threshold"] == 0.8
    assert found["bell"]["hours"] == pytest.approx(0.2, abs=0.001)
    assert together([found, found])["bell"]["heard"] == (2 * expected[1]).tolist()


def test_a_label_that_waits_for_another_is_counted_only_when_that_is_not_heard():
    standing = threshold_at(STEPS // 2)
    config, now = DetectorConfig(refractory_s=1.0, waits={"bell": ["music"]}), [7e5]
    counts = StepCounts(config, lambda: now[0])
    handler = Decisions(np.full(2, standing, np.float32)[:, None], ("bell", "music"), config)
    rng, heard = np.random.default_rng(2), np.zeros(2, int)
    for scores in rng.random((3000, 2)).astype(np.float32) ** 0.2:
        now[0] += HOP_S
        pairs = {label: (float(score), standing) for label, score in zip(("bell", "music"), scores, strict=True)}
        counts.update(pairs, (), {})
        if (slot := handler.update(scores, now[0])) is not None:
            heard[slot] += 1
    assert [one["heard"][STEPS // 2] for one in counts.to_json().values()] == heard.tolist()
    assert heard.min() > 0


def test_a_day_is_counted_and_labels_come_and_go():
    now = [0.0]
    counts = StepCounts(CONFIG, lambda: now[0])

    def hear(**standing):
        for score in (0.0, 1.0):
            now[0] += 1.0
            counts.update(dict.fromkeys(standing, (score, 0.5)), (), {})

    hear(kettle=1)
    hear(kettle=1, bell=1)
    counted = counts.to_json()
    assert [counted[label]["heard"][STEPS] for label in ("kettle", "bell")] == [2, 0]
    now[0] += 25 * 3600
    hear(bell=1)
    assert {label: (one["heard"][0], one["hours"]) for label, one in counts.to_json().items()} == {"bell": (1, 24)}
    assert [step_at(threshold_at(step)) for step in range(STEPS + 1)] == list(range(STEPS + 1))
    assert (step_at(0.0), step_at(1.0)) == (STEPS, 0)
