"""When a round stops waiting, and whether the uploads that it has by then suffice."""

import math

from aggregator_server.rounds.snapshot import RoundSnapshot


def is_complete(snapshot: RoundSnapshot, now: float) -> bool:
    """Tell whether the round need not wait any longer: every selected device uploaded, or the deadline passed."""
    return len(snapshot.uploads) == snapshot.selected or now >= snapshot.deadline_at


def shortfall(snapshot: RoundSnapshot) -> str | None:
    """Return why the uploads do not suffice, or None where they do.

    The quorum is a share of the selected devices that were not revoked; one upload is always needed.
    """
    if not snapshot.selected:
        return "every selected device was revoked, or put in quarantine"
    quorum = float(snapshot.plan["quorum"])
    needed = max(1, math.ceil(quorum * snapshot.selected - 1e-9))
    uploaded = len(snapshot.uploads)
    if uploaded >= needed:
        return None
    return (
        f"quorum missed: {uploaded} of {snapshot.selected} selected devices uploaded before the deadline, "
        f"{needed} were needed (quorum {quorum:g})"
    )
