"""What is checked before a device contributes."""

import numpy as np
import pytest

from edge_client.errors import RecordingError
from edge_client.learning.rounds.client_update import require_clips
from edge_client.learning.training_data import Clips
from fleet_protocol.bundle.labels import LabelMap, Slot
from tests.support.round_work import work_of

LABELS = LabelMap(6, (Slot("b", "cb"), Slot("kettle"), Slot("a", "ca")))
WORK = work_of(learning_rate=0.5)


def test_a_device_without_clips_is_told_where_to_put_some():
    require_clips(WORK, Clips(np.zeros((1, 2, 3, 4)), np.array([0, 2])), LABELS)
    with pytest.raises(RecordingError, match=r"round 3: no readable clips of b, kettle, a; put recordings into"):
        require_clips(WORK, Clips(np.zeros((1, 0, 3, 4)), np.zeros(0, np.int64)), LABELS)
