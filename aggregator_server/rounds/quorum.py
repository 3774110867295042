"""Whether the open round may end, and whether enough devices uploaded for a result."""

import math

from aggregator_server.rounds.private.stages import LAST
from aggregator_server.rounds.snapshot import RoundSnapshot


def may_end(round_: RoundSnapshot, now: float) -> bool:
    """Tell whether a round need not wait any longer: every selected device uploaded, or the deadline passed.

    A private one waits until who uploaded has revealed shares, too.
    """
    if round_.private is not None:
        revealed = {device_id for group in round_.private for device_id in group.revealed}
        asked = {device_id for group in round_.private if group.dropped is None for device_id in group.uploaded}
        waits = any(device_id in asked - revealed for device_id, _ in round_.uploads)
        return round_.stage == LAST and (not waits or now >= round_.deadline_at)
    return len(round_.uploads) == round_.selected or now >= round_.deadline_at


def why_missed(round_: RoundSnapshot, uploads: int) -> str | None:
    """Return why so many uploads do not suffice, or None where they do: the quorum is a share of the selected devices.

    Devices that were revoked or put in quarantine do not count; one upload is always needed.
    """
    if not round_.selected:
        return "every selected device was revoked, or put in quarantine"
    quorum = float(round_.plan["quorum"])
    needed = max(1, math.ceil(quorum * round_.selected - 1e-9))
    if uploads >= needed:
        return None
    return (
        f"quorum missed: {uploads} of {round_.selected} selected devices uploaded before the deadline, "
        f"{needed} were needed (quorum {quorum:g})"
    )
