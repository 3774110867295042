"""The server's log: lines for people, on standard error. It never holds a secret."""

import logging


def configure() -> None:
    """Log to standard error from now on."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it logs every check of a revision
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs every request
