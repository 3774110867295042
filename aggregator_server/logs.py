"""The server's log: lines for people, or one JSON object a line for programs. Neither ever holds a secret."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal

LogFormat = Literal["text", "json"]


_kind: LogFormat = "text"


class JsonLines(logging.Formatter):
    """Writes a record as one JSON object: ``time``, ``level``, ``logger``, ``message``, and ``exception`` if any."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure(kind: LogFormat) -> None:
    """Log to standard error from now on."""
    global _kind
    _kind = kind
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if kind == "json" else text)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it logs every check of a revision
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs every request


def configured() -> LogFormat:
    """Return how this process logs, for those that it starts."""
    return _kind
