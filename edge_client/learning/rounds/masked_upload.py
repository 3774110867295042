"""The upload of a private round: numbers that the server sums over a group, under masks."""

from __future__ import annotations

from collections.abc import Callable

from edge_client.fleet.private_rounds import PrivateRounds
from edge_client.storage.device_state import DeviceState
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.messages.rest import Update, Work, to_json
from fleet_protocol.numbers.tensors import pack
from fleet_protocol.secure_sums.class_sums import MASKED
from fleet_protocol.secure_sums.masking import Words


def put_masked(
    state: DeviceState,
    work: Work,
    settings: FeatureSettings,
    numbers: Words,
    noise: Callable[[int, bytes], Words] | None = None,
) -> None:
    """Put the upload into the outbox, where it stays as it is if it was made before.

    ``numbers``: what the device adds, uint32 [length of the round's layout]; ``noise``: as in
    :meth:`PrivateRounds.upload`. Raises SecureSumError if the device has not agreed on masks, WorkError if the upload
    was made before and is gone.
    """
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

    path, rounds = state.outbox.update_path(work.round_id), PrivateRounds(state)
    data = rounds.upload(work.round_id, state.outbox.read(path), make, noise)
    state.outbox.put(path, data)
    rounds.note_upload(data)
