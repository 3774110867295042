"""What a private round costs a device: runs in the emulated ARMv7 as counted.py does.

Run as `python -m benchmarks.arm_instructions.private CLASSES GROUP` under the plug-in of count.c.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from benchmarks.arm_instructions.counted import measure
from edge_client.fleet.private_rounds import PrivateRounds
from edge_client.storage.device_state import DeviceState
from fleet_protocol.messages.private_rounds import Member, PrivatePlan, PrivateWork
from fleet_protocol.messages.rest import Choice, ClassInfo, RoundPlan, Work
from fleet_protocol.numbers.tensors import pack
from fleet_protocol.secure_sums.layouts import MASKED, SumLayout
from fleet_protocol.secure_sums.primitives import signing_public_key
from fleet_protocol.secure_sums.roster import Roster, context_digest
from fleet_protocol.secure_sums.round_secret import RoundSecret

# In the order of their marks; each stage with all that it reads and writes on the disk.
MEASUREMENTS = ("import", "keys", "shares", "contribute", "unmask")
NUMBERS, KNOWN = 64, 10  # of an embedding of `words`; classes that the device has


def announced(classes: int, group: int) -> Work:
    """Return a round of `prototypes` as a device is told of it, in groups of so many."""
    plan = RoundPlan(
        local=Choice("prototypes"),
        aggregation=Choice("prototype_mean", {"vote_cap": 3, "order": True}),
        selection=Choice("all"),
        deadline_s=600.0,
        quorum=0.5,
        seed=0,
        private=PrivatePlan(group),
    )
    infos = tuple(ClassInfo(f"c{number}", f"word {number}") for number in range(classes))
    return Work(
        kind="keys", round_id=1, plan=plan, public_set="0" * 64, consensus=None, classes=infos, private=PrivateWork()
    )


def calls(folder: Path, classes: int, group: int) -> dict[str, Callable[[], object]]:
    """Return the stages of one device; the others of its group are their secrets alone."""
    state, work = DeviceState(folder), announced(classes, group)
    rounds, own = PrivateRounds(state), state.identity.load().device_id
    context = context_digest(work.round_id, work.plan, work.public_set, [info.class_id for info in work.classes])
    others = {f"{number:032x}": RoundSecret(f"{number:032x}", bytes([number]) * 32) for number in range(1, group)}
    signing = {one: other.random for one, other in others.items()} | {own: state.identity.signing_key()}
    keys = {one: other.keys(signing[one], context) for one, other in others.items()} | {own: rounds.keys(work)}
    members = tuple(Member(one, signing_public_key(signing[one]), **asdict(keys[one])) for one in keys)
    shares = replace(work, kind="shares", private=PrivateWork(members=members))
    roster = Roster(context, members)
    sealed = {one: others[one].encrypted_shares(roster).shares[own] for one in roster.neighbours(own)}
    present = tuple(roster.places)
    contribute = replace(
        work, kind="contribute", private=PrivateWork(members=members, shares=sealed, taking_part=present)
    )
    asked = replace(work, kind="unmask", private=PrivateWork(members=members, taking_part=present, uploaded=present))
    rows = np.random.default_rng(0).normal(size=(KNOWN, NUMBERS)).astype(np.float32)
    table = {row: ([mean[None]], 4, 0.0) for row, mean in enumerate(rows)}

    def contributed() -> None:
        rounds.accept(contribute)
        numbers = SumLayout.of(work.plan, classes, (1, NUMBERS)).own(table)
        rounds.upload(work.round_id, None, lambda mask: pack({MASKED: mask(numbers)}, {}))

    def unmasked() -> None:
        note = state.private_rounds.load()
        if note is not None and not note.upload:
            rounds.note_upload(b"")
        rounds.unmask(asked)

    return {
        "keys": lambda: rounds.keys(work),
        "shares": lambda: rounds.shares(shares),
        "contribute": contributed,
        "unmask": unmasked,
    }


def main(classes: int, group: int) -> None:
    """Measure everything: first how `cryptography` is loaded, in this process and in the child that trains."""
    measure({"import": lambda: RoundSecret("0" * 32, bytes(32)).keys(bytes(32), bytes(32))}, repeated=False)
    with tempfile.TemporaryDirectory() as folder:
        measure(calls(Path(folder), classes, group), first=1)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
