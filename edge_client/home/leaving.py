"""A device remembers its home, and takes back what Home Assistant shows of one that it left."""

from __future__ import annotations

import logging
import threading

from edge_client.config import Config
from edge_client.errors import EdgeError
from edge_client.events.mqtt_clear import clear_home
from edge_client.storage.database import Database

log = logging.getLogger(__name__)

_HOMES = "homes"


def settle_homes(config: Config, database: Database, device_id: str) -> threading.Thread | None:
    """Remember the home of the configuration; leave those before it, in a thread that is returned, if there are any.

    Without a broker they are left at a later start. Raises StateError, OSError as Database.
    """
    before: list[str] = database.note(_HOMES) or []
    now = [] if config.home is None else [config.home.name]
    left = [name for name in before if name not in now]
    if left + now != before:
        database.set_note(_HOMES, left + now)
    if not left or config.mqtt is None:
        return None
    broker = config.mqtt

    def leave() -> None:
        try:
            for name in left:
                clear_home(broker, name, device_id)
            database.set_note(_HOMES, now or None)
        except (EdgeError, OSError) as error:
            log.warning("Home Assistant may still show the home %s, which this device left: %s", left[0], error)

    thread = threading.Thread(target=leave, name="home left", daemon=True)
    thread.start()
    return thread
