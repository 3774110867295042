"""All routes of the dashboard."""

from __future__ import annotations

from aggregator_server.web.dashboard import (
    audit,
    classes,
    fleet,
    help_pages,
    invitations,
    language_choice,
    live,
    overview,
    rounds,
    schedules,
    signing_in,
    static_files,
)

_MODULES = (
    static_files,
    live,
    signing_in,
    language_choice,
    overview,
    fleet,
    rounds,
    schedules,
    classes,
    audit,
    invitations,
    help_pages,
)
PAGES = tuple(module.router for module in _MODULES)
