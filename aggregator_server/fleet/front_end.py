"""The fleet's last change of its front end: to which bundle, until when devices have time, and who has yet to follow.

undo/front_end_change.py makes the change. Before the first, all devices of a fleet have one front end.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from sqlalchemy import ScalarSelect, Text, cast, select
from sqlalchemy.orm import Session

from aggregator_server.store import Tables
from aggregator_server.store.tables import OperationRow, table_of
from fleet_protocol.messages import WantedFrontEnd

FRONT_END = "front_end"
"""The operation's name (``OperationRow.what``)."""
_OPERATIONS = table_of(OperationRow)
_NEWEST = (
    select(cast(_OPERATIONS.c.details, Text).label("details"))
    .where(_OPERATIONS.c.what == FRONT_END)
    .order_by(_OPERATIONS.c.round_id.desc())
    .limit(1)
)


@dataclass(frozen=True, kw_only=True)
class FrontEndChange:
    """A change of the fleet's front end.

    Attributes:
        bundle: Name of the ready bundle with the new one.
        features: Digest of its features.
        former: Digests of the features that the fleet had before.
        grace_until: Time until which devices with a former one may join, and are not outdated, in seconds since 1970.
    """

    bundle: str
    features: str
    former: tuple[str, ...]
    grace_until: float

    def takes(self, features: str, now: float, *, known: bool) -> bool:
        """Tell whether a device with a former front end may enrol: one that is enrolled, always; a new one meanwhile.

        It takes no part in rounds until it has the new one.
        """
        return features in self.former and (known or now < self.grace_until)

    def asked_of(self, features: str) -> WantedFrontEnd | None:
        """Return what a device with these features is asked to change to; None where it has the fleet's."""
        return None if features == self.features else WantedFrontEnd(self.bundle, self.features)

    def is_over(self, now: float) -> bool:
        """Tell whether devices with a former front end are outdated by now."""
        return now >= self.grace_until

    def behind(self, features: str, now: float) -> str:
        """Say, to people, why a device with these features takes no part in rounds; "" where it has the fleet's."""
        if features == self.features:
            return ""
        until = datetime.fromtimestamp(self.grace_until, UTC)
        when = "the time for that is over" if self.is_over(now) else f"it has time until {until:%Y-%m-%d %H:%M} UTC"
        return (
            f"it takes no part in rounds before it has the fleet's front end, {self.bundle}; {when}. It changes by "
            "itself, or says its trouble: have its software brought up to date, and follow_front_end = true"
        )


def newest_change_text() -> ScalarSelect[str]:
    """Return a select of the newest change, for :func:`change_of_text`."""
    return _NEWEST.scalar_subquery()


@lru_cache(maxsize=4)
def change_of_text(text: str | None) -> FrontEndChange | None:
    """Return a change from the JSON text of its row's details."""
    if text is None:
        return None
    found = json.loads(text)
    return FrontEndChange(
        bundle=str(found["bundle"]),
        features=str(found["features"]),
        former=tuple(found["former"]),
        grace_until=float(found["grace_until"]),
    )


def newest_change(session: Session) -> FrontEndChange | None:
    """Return the newest change of the fleet's front end; None where there was none."""
    return change_of_text(session.execute(_NEWEST).scalar())


def front_end_wanted(tables: Tables, features: str) -> WantedFrontEnd | None:
    """Return the front end that a device with these features is asked to change to; None where it has the fleet's.

    Only the thread of the event loop may call this.
    """
    found = tables.first_row(_NEWEST, {})
    change = None if found is None else change_of_text(found.details)
    return None if change is None else change.asked_of(features)
