"""The upload of a private round of prototypes: a table of all classes of the fleet, under masks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from edge_client.fleet.private_rounds import PrivateRounds
from edge_client.storage.device_state import DeviceState
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.messages.rest import Update, Work, to_json
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.tensors import pack
from fleet_protocol.secure_sums.class_sums import MASKED, SumLayout
from fleet_protocol.secure_sums.masking import Words


def masked_upload(
    state: DeviceState, work: Work, settings: FeatureSettings, table: Mapping[int, tuple[Sequence[Floats], int, float]]
) -> bytes:
    """Return the upload: the one that waits in the outbox if it was made before.

    ``table``: ``SumLayout.own``. Raises SecureSumError if the plan cannot be summed, WorkError if the upload was made
    before and is gone.
    """
    numbers = SumLayout.of(work.plan, len(work.classes), settings.shape).own(table)
    # What a plain upload tells of labels, clips and new sounds is left empty: only sums are told.
    classes = tuple(info.class_id for info in work.classes)
    update = Update(
        round_id=work.round_id,
        device_id=state.identity.load().device_id,
        features=settings.digest,
        public_set=work.public_set,
        classes=classes,
        clips=0,
        known=classes,
    )

    def make(mask: Callable[[Words], Words]) -> bytes:
        return pack({MASKED: mask(numbers)}, to_json(update))

    present = state.outbox.read(state.outbox.update_path(work.round_id))
    return PrivateRounds(state).upload(work.round_id, present, make)
