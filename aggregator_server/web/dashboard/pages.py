"""All routes of the dashboard."""

from __future__ import annotations

from aggregator_server.web.dashboard import (
    audit,
    classes,
    fleet,
    invitations,
    live,
    overview,
    rounds,
    signing_in,
    static_files,
)

PAGES = tuple(
    module.router for module in (static_files, live, signing_in, overview, fleet, rounds, classes, audit, invitations)
)
