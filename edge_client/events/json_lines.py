"""Events as lines of JSON, for whoever reads the daemon's standard output."""

from __future__ import annotations

import logging
import os
import sys
from typing import TextIO

from edge_client.events import Document, SinkDevice, SinkKind
from edge_client.events.delivery import Delivery, DocumentSink
from fleet_protocol.command_line import json_line

log = logging.getLogger(__name__)

_GRACE_S = 2.0


class JsonLines(DocumentSink):
    """Writes a line for every event and flushes it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._gone = False
        super().__init__(Delivery("the reader of standard output", self._write))

    def close(self) -> None:
        """Write what waits."""
        self._delivery.close(_GRACE_S)

    def _write(self, document: Document) -> None:
        if self._gone:
            return
        try:
            self._stream.write(json_line(document, self._stream))
            self._stream.flush()
        except OSError as error:
            log.warning("nobody reads events from standard output any more (%s); they go everywhere else", error)
            self._gone = True
            # What the stream still holds must go somewhere, or Python fails when it flushes at its end.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


def _open(device: SinkDevice) -> JsonLines | None:
    return JsonLines(sys.stdout) if device.config.events.stdout else None


SINK = SinkKind(name="stdout", open=_open)
