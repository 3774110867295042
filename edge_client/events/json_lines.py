"""Events as lines of JSON for whoever reads the daemon's standard output; in words where that is a terminal."""

from __future__ import annotations

import logging
import os
from datetime import datetime
from typing import TextIO

from edge_client.events import Document, Event, Sink
from edge_client.events.delivery import Delivery
from fleet_protocol.ground.command_line import json_line

log = logging.getLogger(__name__)

_GRACE_S = 2.0


def in_words(document: Document) -> str:
    """Return an event's or an end's document as a line for people."""
    at = datetime.fromisoformat(str(document["time"])).astimezone()
    if document["kind"] == "unknown":
        perhaps = f": perhaps {document['guess']}" if document.get("guess") else ""
        said = f"heard a sound that it does not know{perhaps}"
    elif document["kind"] == "ended":
        ended = datetime.fromisoformat(str(document["ended"])).astimezone()
        at, said = ended, f"{document['label']} is over, after {(ended - at).total_seconds():.0f} s"
    else:
        said = f"heard {document['label']}  ({100 * float(document['score'] or 0):.0f} %)"
    where = f"  in {document['input']}" if document.get("input") else ""
    return f"{at:%H:%M:%S}  {said}{where}"


class JsonLines(Sink):
    """Writes a line for every event and every end of a sound, and flushes it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._people = stream, stream.isatty()
        self._gone = False
        self._delivery: Delivery[Document] = Delivery("the reader of standard output", self._write)

    def publish(self, event: Event) -> None:
        """Queue an event."""
        self._delivery.put(event.to_json())

    def follow(self, event: Event) -> None:
        """Queue the end of a sound."""
        if event.ended is not None:
            self._delivery.put(event.to_end_json())

    def close(self) -> None:
        """Write what waits."""
        self._delivery.close(_GRACE_S)

    def _write(self, document: Document) -> None:
        if self._gone:
            return
        try:
            line = f"{in_words(document)}\n" if self._people else json_line(document, self._stream)
            self._stream.write(line)
            self._stream.flush()
        except OSError as error:
            log.warning("nobody reads events from standard output any more (%s); they go everywhere else", error)
            self._gone = True
            # What the stream still holds must go somewhere, or Python fails when it flushes at its end.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
