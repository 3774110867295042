"""Questions and switches on MQTT: what is published of them, and what an answer or a command looks like."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from edge_client.errors import ClipError, ConfigError, StateError
from edge_client.events import Asked, Switch, iso
from edge_client.pauses import Pause, seconds_of
from edge_client.storage.database import Database

log = logging.getLogger(__name__)

ANSWER = "question/answer"
"""Topic behind the device's own on which answers come."""
QUESTION, ASKED = "question", "question/asked"
"""Topics behind the device's own: the question that is answered next, retained; and each new one, as an event."""
_LARGEST_ANSWER = 2048
_WORDS = {"yes", "no"}
_TOLD = "told_questions"
PAUSE, SET = "pause", "/set"
"""Topic behind the device's own that says whether it is paused, retained; and what is behind such a topic's command."""
COMMANDS = (f"{PAUSE}{SET}", f"label/+/listen{SET}")
"""Topics behind the device's own on which commands come."""
_LARGEST_COMMAND = 64
_STATES = {b"ON": True, b"OFF": False}


def shown_questions(questions: Sequence[Asked], base: str) -> dict[str, Any]:
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
    if len(payload) > _LARGEST_ANSWER:
        raise ClipError(f"an answer of {len(payload)} bytes; at most {_LARGEST_ANSWER} are taken")
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


def shown_pause(pause: Pause | None) -> dict[str, Any]:
    """Return what is published of a pause, or of none, JSON-ready."""
    if pause is None:
        return {"paused": "OFF", "since": None, "until": None, "by": None}
    since, until = (None if moment is None else iso(moment) for moment in (pause.since, pause.until))
    return {"paused": "ON", "since": since, "until": until, "by": pause.by}


def listen_topic(key: str) -> str:
    """Return the topic behind the device's own that says whether a label of a key is listened for, retained."""
    return f"label/{key}/listen"


def switch_of(topic: str, payload: bytes, keys: Mapping[str, str]) -> Switch:
    """Return what a command says: ``ON``, ``OFF``, or for how long to pause, such as ``30m``.

    ``topic``: behind the device's own; ``keys``: of labels. Raises ConfigError if it is none.
    """
    labels = {f"{listen_topic(key)}{SET}": label for label, key in keys.items()}
    if topic != COMMANDS[0] and topic not in labels:
        raise ConfigError(f"no label has the topic {topic[:100]!r}")
    given = payload[: _LARGEST_COMMAND + 1].strip()
    if given in _STATES:
        return Switch(_STATES[given], labels.get(topic, ""))
    if topic in labels:
        raise ConfigError(f"a command for a label is ON or OFF, not {given[:40]!r}")
    try:
        return Switch(on=True, for_s=seconds_of(given.decode(errors="replace")))
    except ConfigError as error:
        raise ConfigError(f"a command for the pause is ON, OFF or a time; {error}") from error
