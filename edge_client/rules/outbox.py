"""What rules have still to tell, in the device's database: it outlives restarts, and waits for the network."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edge_client.storage.database import Database

# Messages that wait at most, for how long, and the pauses between tries, s.
MOST, _KEEP_S, _FIRST_PAUSE_S, _LONGEST_PAUSE_S = 500, 86_400.0, 5.0, 900.0
_LOST = "rules_lost"
_COLUMNS = "id, at, tries, rule, action, document, error"


@dataclass(frozen=True)
class Message:
    """One thing to do: which of a rule's actions, with which document; ``error``: why it failed last."""

    number: int
    at: float
    tries: int
    rule: str
    action: str
    document: dict[str, Any]
    error: str


class Outbox:
    """The messages of one device; several processes may use them. All raises as :class:`Database`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, rule: str, actions: Sequence[str], document: Mapping[str, Any], at: float) -> list[int]:
        """Keep a message for each action; the oldest go, and count as lost, where there are too many."""
        with self._database.changing() as connection:
            row = "INSERT INTO outbox (at, due, tries, rule, action, document, error) VALUES (?, ?, 0, ?, ?, ?, '')"
            due, text = time.time(), json.dumps(document)
            numbers = [int(connection.execute(row, (at, due, rule, action, text)).lastrowid or 0) for action in actions]
            newest = f"SELECT id FROM outbox ORDER BY id DESC LIMIT {MOST}"
            lost = connection.execute(f"DELETE FROM outbox WHERE id NOT IN ({newest})").rowcount
        self._count_lost(lost)
        return numbers

    def due(self) -> Message | None:
        """Return the message to be tried now, the oldest first; None where none is due."""
        now = time.time()
        # A clock that was put back makes none wait longer than its pause.
        wanted = f"SELECT {_COLUMNS} FROM outbox WHERE due <= ? OR due > ? ORDER BY id LIMIT 1"
        found = self._database.rows(wanted, (now, now + _LONGEST_PAUSE_S))
        return _message(found[0]) if found else None

    def pause_s(self) -> float:
        """Return in how many seconds a message is due next; infinity where none waits."""
        found = self._database.rows("SELECT due FROM outbox ORDER BY due LIMIT 1")
        return max(0.0, found[0][0] - time.time()) if found else math.inf

    def waiting(self) -> list[Message]:
        """Return all messages, the oldest first."""
        return [_message(row) for row in self._database.rows(f"SELECT {_COLUMNS} FROM outbox ORDER BY id")]

    def done(self, message: Message) -> None:
        """Note that it was delivered."""
        with self._database.changing() as connection:
            connection.execute("DELETE FROM outbox WHERE id = ?", (message.number,))

    def failed(self, message: Message, error: str, *, for_good: bool) -> None:
        """Note why it could not be delivered: it is tried again, or lost where that is useless or a day has passed.

        Whoever tests a rule reads why, and removes the message himself.
        """
        now = time.time()
        lost = (for_good and "test" not in message.document) or abs(now - message.at) > _KEEP_S
        pause = min(_FIRST_PAUSE_S * 2.0**message.tries, _LONGEST_PAUSE_S)
        with self._database.changing() as connection:
            if lost:
                connection.execute("DELETE FROM outbox WHERE id = ?", (message.number,))
            else:
                after = (now + pause, error, message.number)
                connection.execute("UPDATE outbox SET tries = tries + 1, due = ?, error = ? WHERE id = ?", after)
        self._count_lost(int(lost), f"{message.rule}, {message.action}: {error}")

    def lost(self) -> tuple[int, str]:
        """Return how many messages were lost, ever, and why the last one was, "" where it is not known."""
        count, why = self._database.note(_LOST) or (0, "")
        return int(count), str(why)

    def _count_lost(self, count: int, why: str = f"more than {MOST} waited") -> None:
        if count > 0:
            self._database.set_note(_LOST, [self.lost()[0] + count, why])


def _message(row: tuple[Any, ...]) -> Message:
    number, at, tries, rule, action, document, error = row
    return Message(number, at, tries, rule, action, json.loads(document), error)
