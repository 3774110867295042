"""This aggregator as a device of an upper one: what the rest of the server has to know of it (docs/scaling.md)."""

from sqlalchemy.orm import Session

from aggregator_server.errors import InRegionError
from aggregator_server.store.tables import RegionRow

ONLY = 1
"""The key of the one row."""
ADOPTION = "adopt"
"""The operation by which a region takes over the result of an upper round (``OperationRow.what``)."""


def read_region(session: Session) -> RegionRow | None:
    """Return what this aggregator is to an upper one; None: nothing."""
    return session.get(RegionRow, ONLY)


def require_own_rounds(session: Session) -> None:
    """Check that the fleet decides for itself about its rounds, classes and models.

    Raises:
        InRegionError: it is a region of another one.
    """
    region = read_region(session)
    if region is not None:
        raise InRegionError(
            f"this fleet is a region of the one at {region.urls[0]}: rounds, classes, public set and model come from "
            "there. Ask for it there, or take the fleet out of it: auricle-aggregator leave"
        )
