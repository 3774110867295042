"""The round that the aggregator on this machine runs with the board."""

from pathlib import Path

from tests.arm.machine import ArmError
from tests.board.board import Board
from tests.support.aggregator_process import Aggregator

# Training long enough to be interrupted twice, and short enough to be waited for.
SETTINGS = {"epochs": 60, "augmented_copies": 2, "distill_epochs": 1}
_DEADLINE_S = 7200


def open_round(aggregator: Aggregator, public_set: Path) -> int:
    """Publish the public set and open a round; return its number."""
    with aggregator.client() as client:
        client.put("/v1/public-set", content=public_set.read_bytes()).raise_for_status()
        wanted = {"strategy": "zero_shot", "settings": SETTINGS, "deadline_s": _DEADLINE_S, "quorum": 1.0}
        reply = client.post("/v1/rounds", json=wanted)
        reply.raise_for_status()
        return int(reply.json()["round_id"])


def wait_until_done(board: Board, aggregator: Aggregator, round_id: int) -> None:
    """Wait until the board's upload was taken and it has learned from the result."""
    with aggregator.client() as client:

        def detail() -> dict:
            found = client.get(f"/v1/rounds/{round_id}").json()
            if found["summary"]["state"] == "failed":
                raise ArmError(f"the round failed: {found['summary']['reason']}")
            return found

        board.wait(lambda: all(device["learned"] for device in detail()["participants"]), "the round ends")
