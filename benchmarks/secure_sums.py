"""Secure sums beside Flower's SecAgg+: one group sums the same numbers, and some of its devices go after their shares.

Bytes up and down of a device that stays, without what the network adds; processor time of a device and of the server,
in one process; how many of the group may go, by trial. Auricle's devices check signatures, which Flower's have none of.
Both have a threshold of two thirds and, beyond 21 devices, 21 holders.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

os.environ.update(FLWR_TELEMETRY_ENABLED="0")

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client.mod.secure_aggregation.secaggplus_mod import secaggplus_mod
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.compat.common.recorddict_compat import fitres_to_recorddict, parameters_to_arrayrecord
from flwr.server import ServerConfig, SimpleClientManager
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key

from benchmarks.command import Command, said
from fleet_protocol.errors import SecureSumError
from fleet_protocol.messages.private_rounds import Member, PrivateWork, RevealedShares
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.fixed_point import FixedPoint
from fleet_protocol.secure_sums.masking import Words, unmasked
from fleet_protocol.secure_sums.primitives import signing_public_key
from fleet_protocol.secure_sums.roster import Roster, largest_group, require_signed
from fleet_protocol.secure_sums.round_secret import RoundSecret

_HOLDERS, _THRESHOLD, _RANGE = 21, 2 / 3, 8.0


class Tally:
    """Bytes of the first device, which stays, and processor seconds of all devices."""

    def __init__(self) -> None:
        self.up = self.down = 0
        self.devices_s = 0.0

    def ask(self, is_first: bool, told: int, answer: Callable[[], Any], size: Callable[[Any], int]) -> Any:  # noqa: ANN401
        """Have a device answer what has so many bytes; return the answer, whose bytes ``size`` tells."""
        begun = time.process_time()
        given = answer()
        self.devices_s += time.process_time() - begun
        if is_first:
            self.down, self.up = self.down + told, self.up + size(given)
        return given


def auricle(rows: Floats, lost: int, tally: Tally) -> Floats:
    """Return the mean of all rows but the last ``lost``. Raises SecureSumError: too many are lost."""
    point, context = FixedPoint.for_sums(largest_group(len(rows)), _RANGE), bytes(32)
    secrets = {f"{number:032x}": RoundSecret(f"{number:032x}", os.urandom(32)) for number in range(len(rows))}
    signing = {one: os.urandom(32) for one in secrets}
    first = next(iter(secrets))

    def ask(device: str, told: PrivateWork, answer: Callable[[], Any]) -> Any:  # noqa: ANN401
        return tally.ask(device == first, len(_json(told)), answer, lambda given: len(_json(given)))

    keys = {one: ask(one, PrivateWork(), partial(secrets[one].keys, signing[one], context)) for one in secrets}
    members = tuple(Member(one, signing_public_key(signing[one]), **asdict(keys[one])) for one in secrets)
    roster = Roster(context, members)

    def shares(one: str) -> Any:  # noqa: ANN401
        for member in members:
            require_signed(member, context)
        return secrets[one].encrypted_shares(roster)

    sent = {one: ask(one, PrivateWork(members=members), partial(shares, one)) for one in secrets}
    present, uploads, revealed = tuple(secrets), dict[str, Words](), dict[str, RevealedShares]()
    sealed = {
        one: {other: sent[other].shares[one] for other in present if one in sent[other].shares} for one in present
    }
    there = present[: len(present) - lost]
    for one, row in zip(there, rows, strict=False):
        told = PrivateWork(members=members, taking_part=present, shares=sealed[one])
        uploads[one] = ask(one, told, partial(secrets[one].masked, roster, point.encode(row), present))

    def reveal(one: str) -> RevealedShares:
        held = secrets[one].opened(roster, sealed[one]) | {one: secrets[one].own_shares(roster)[one]}
        return RevealedShares(
            {other: found.self_seed.hex() for other, found in held.items() if other in uploads},
            {other: found.mask_key.hex() for other, found in held.items() if other not in uploads},
        )

    for one in there:
        told = PrivateWork(members=members, taking_part=present, uploaded=there)
        revealed[one] = ask(one, told, partial(reveal, one))
    commitments = {one: sent[one].commitment for one in present}
    return point.decode(unmasked(roster, present, uploads, commitments, revealed)) / len(there)


def _json(message: object) -> bytes:
    """Return what travels: a message as JSON, an upload as its bytes."""
    return message.tobytes() if isinstance(message, np.ndarray) else json.dumps(asdict(message)).encode()  # type: ignore[call-overload]


class _Grid:
    """Flower's way to its devices, all in this process; the last ``lost`` are silent from a third message on."""

    def __init__(self, rows: Floats, lost: int, tally: Tally) -> None:
        self._rows, self._lost, self._tally = rows, lost, tally
        self._contexts = {
            number: Context(run_id=1, node_id=number, node_config={}, state=RecordDict(), run_config={})
            for number in range(1, len(rows) + 1)
        }
        self._asked = 0

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Have devices answer."""
        del timeout
        self._asked += 1
        gone = len(self._rows) - (self._lost if self._asked > 2 else 0)
        sent = [message_to_proto(message) for message in messages if message.metadata.dst_node_id <= gone]
        return [self._answer(message_from_proto(one), one.ByteSize()) for one in sent]  # messages may share contents

    def _answer(self, message: Message, told: int) -> Message:
        number = message.metadata.dst_node_id
        message.metadata.__dict__["_run_id"] = 1

        def fit(asked: Message, _context: Context) -> Message:
            parameters = ndarrays_to_parameters([self._rows[number - 1]])
            result = FitRes(Status(Code.OK, ""), parameters, num_examples=1, metrics={})
            return Message(fitres_to_recorddict(result, False), reply_to=asked)

        def size(given: Message) -> int:
            return int(message_to_proto(given).ByteSize())

        found: Message = self._tally.ask(
            number == 1, told, lambda: secaggplus_mod(message, self._contexts[number], fit), size
        )
        return found


def flower(rows: Floats, lost: int, tally: Tally) -> Floats:
    """Return the same by Flower. Raises SecureSumError: too many are lost."""
    grid: Any = _Grid(rows, lost, tally)
    manager = SimpleClientManager()
    for number in range(1, len(rows) + 1):
        manager.register(GridClientProxy(number, grid, 1))
    start = ndarrays_to_parameters([np.zeros(1, np.float32)])
    strategy = FedAvg(fraction_fit=1.0, min_fit_clients=len(rows), min_available_clients=len(rows))
    plain = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config={})
    context = LegacyContext(plain, ServerConfig(1), strategy, manager)
    context.state.array_records[MAIN_PARAMS_RECORD] = parameters_to_arrayrecord(start, keep_input=True)
    context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({Key.CURRENT_ROUND: 1})
    holders = min(len(rows), _HOLDERS)
    SecAggPlusWorkflow(holders, round(_THRESHOLD * holders), clipping_range=_RANGE, max_weight=1.0)(grid, context)
    found = context.state.array_records[MAIN_PARAMS_RECORD]
    (array,) = (one.numpy() for one in found.values())
    if array.shape != rows.shape[1:]:
        raise SecureSumError("Flower halted")
    return np.asarray(array)


def work(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Print a line for each system and number of lost devices."""
    rows = np.random.default_rng(0).normal(size=(chosen.devices, chosen.numbers)).astype(np.float32)
    figures = []
    for name, way in (("auricle", auricle), ("flower", flower)):
        for lost in chosen.lost:
            tally, begun, error = Tally(), time.process_time(), float("nan")
            try:
                found = way(rows, lost, tally)
                error = float(np.abs(found - rows[: len(rows) - lost].mean(axis=0, dtype=np.float64)).max())
            except SecureSumError as refused:
                print(refused, file=sys.stderr)
            server_s = time.process_time() - begun - tally.devices_s
            figures.append(said({
                "system": name,
                "lost": lost,
                "error": float(f"{error:.1e}"),
                "up_kb": round(tally.up / 1e3, 1),
                "down_kb": round(tally.down / 1e3, 1),
                "device_ms": round(1e3 * tally.devices_s / len(rows), 1),
                "server_s": round(server_s, 2),
            }))  # fmt: skip
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = Command("benchmarks.secure_sums", __doc__)
    parser.add_argument("--devices", type=int, default=16, metavar="N", help="of the group (16)")
    parser.add_argument("--numbers", type=int, default=16_896, metavar="N", help="256 classes of 66 (16896)")
    parser.add_argument("--lost", nargs="+", type=int, default=[0, 5, 6], metavar="N", help="(0 5 6)")
    return parser.run(work, arguments)


if __name__ == "__main__":
    sys.exit(main())
