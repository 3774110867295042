"""Questions on MQTT: what is published of those that are open, and what an owner's answer looks like."""

import json
import logging
from collections.abc import Sequence
from typing import Any

from edge_client.errors import ClipError, StateError
from edge_client.events import Asked
from edge_client.storage.database import Database

log = logging.getLogger(__name__)

ANSWER = "question/answer"
"""Topic behind the device's own on which answers come."""
QUESTION, ASKED = "question", "question/asked"
"""Topics behind the device's own: the question that is answered next, retained; and each new one, as an event."""
_LARGEST_BYTES = 2048
_WORDS = {"yes", "no"}
_TOLD = "told_questions"


def shown(questions: Sequence[Asked], base: str) -> dict[str, Any]:
    """Return what is published, JSON-ready, of open questions, the newest first: the oldest, until it is answered.

    So that nobody who presses a button answers another question than he saw.
    """
    if not questions:
        return {"question": "none", "open": 0, "label": None, "was": None}
    return {"open": len(questions), "was": None, **asked(questions[-1], base)}


def asked(question: Asked, base: str) -> dict[str, Any]:
    """Return a question as Home Assistant gets it, JSON-ready."""
    return {
        "event_type": "asked",
        "question": (question.words or f"Was that {question.label}?")[:250],
        "answer_topic": f"{base}/{ANSWER}",
        **question.to_json(),
    }


def reply_of(payload: bytes, oldest: str) -> tuple[str, str, str]:
    """Return the answer in a message: ``yes`` or ``no`` about the oldest question, or a JSON object.

    It has the beginning of a question's identifier, ``yes``, ``no``, ``was`` or ``never``, and the label that it was.
    ``oldest``: identifier of that question; "" where none is open. Raises ClipError if it is no answer.
    """
    if len(payload) > _LARGEST_BYTES:
        raise ClipError(f"an answer of {len(payload)} bytes; at most {_LARGEST_BYTES} are taken")
    text = payload.decode(errors="replace").strip()
    try:
        found = {"answer": text} if text in _WORDS else json.loads(text)
    except (ValueError, RecursionError):
        found = None
    parts = [found.get(key, "") for key in ("id", "answer", "label")] if isinstance(found, dict) else [None]
    if not all(isinstance(part, str) for part in parts):
        raise ClipError(
            f'{text[:100]!r} is no answer; send yes or no, or {{"id": "..", "answer": "was", "label": ".."}}'
        )
    given, says, label = map(str, parts)
    if not (given or oldest):
        raise ClipError(f"{text[:100]!r} answers nothing: no question is open")
    return given or oldest, says, label


class ToldQuestions:
    """Which questions were told, so that a device that starts again tells no open one anew; used by one thread."""

    def __init__(self, database: Database | None) -> None:
        """Read what an earlier process noted in the device's database; None: nothing is noted."""
        self._database = database
        self._noted: list[str] | None = None
        if database is not None:
            try:
                self._noted = database.note(_TOLD)
            except (StateError, OSError) as error:
                log.warning("%s; open questions are told anew", error)

    @property
    def any_ever(self) -> bool:
        """Whether this device ever asked."""
        return self._noted is not None

    def new(self, questions: Sequence[Asked]) -> list[Asked]:
        """Return those of the open questions that were not told yet, the oldest first, and note all as told."""
        told, ids = self._noted or [], sorted(one.question_id for one in questions)
        if ids != self._noted:
            self._noted = ids
            if self._database is not None:
                try:
                    self._database.set_note(_TOLD, ids, durable=False)
                except (StateError, OSError) as error:
                    log.warning("cannot note which questions were told: %s", error)
        return [one for one in reversed(questions) if one.question_id not in told]
