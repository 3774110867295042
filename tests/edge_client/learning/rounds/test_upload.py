"""What both strategies check and say when a device contributes."""

import numpy as np
import pytest

from edge_client.errors import RecordingError
from edge_client.learning.rounds.client_update import build_update, require_clips
from edge_client.learning.training_data import Clips
from fleet_protocol.labels import LabelMap, Slot
from fleet_protocol.messages import ClassReport
from tests.support.round_work import work_of

LABELS = LabelMap(6, (Slot("b", "cb"), Slot("kettle"), Slot("a", "ca")))
WORK = work_of(learning_rate=0.5)


def test_a_device_without_clips_is_told_where_to_put_some():
    require_clips(WORK, Clips(np.zeros((1, 2, 3, 4)), np.array([0, 2])), LABELS)
    with pytest.raises(RecordingError, match=r"round 3: no readable clips of b, kettle, a; put recordings into"):
        require_clips(WORK, Clips(np.zeros((1, 0, 3, 4)), np.zeros(0, np.int64)), LABELS)


@pytest.mark.parametrize(("share_names", "name"), [(True, "kettle"), (False, None)])
def test_the_document_says_what_was_learned_and_no_word_that_is_not_shared(share_names, name):
    update = build_update(
        WORK,
        "1" * 32,
        features="f" * 64,
        label_map=LABELS,
        slots=np.array([1, 1, 0, 0]),
        classes=["cb", "ca"],
        known=[0],
        new=[1],
        share_names=share_names,
    )
    assert (update.round_id, update.device_id, update.features) == (3, "1" * 32, "f" * 64)
    assert (update.public_set, update.classes, update.clips) == ("0" * 64, ("cb", "ca"), 4)
    assert (update.reports, update.known) == ((ClassReport(1, name, 2),), ("cb",))
    assert update.label_entropy == pytest.approx(np.log(2))
    assert update.metrics == {}
