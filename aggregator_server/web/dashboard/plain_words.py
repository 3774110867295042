"""What a page says of an error: in plain words by the error's code, and then what the server says, where that helps."""

from __future__ import annotations

import re

from aggregator_server.errors import AggregatorError
from aggregator_server.web.dashboard.languages import N_, gettext

# Errors without an entry here speak plainly themselves.
WORDS = {
    "internal_error": N_("Something failed on the server. Its log says more."),
    "round_not_found": N_("There is no such round."),
    "schedule_not_found": N_("There is no such schedule, or it has ended."),
    "device_not_found": N_("There is no such device."),
    "class_not_found": N_("There is no such class, or it is in another state than this needs."),
    "invitation_not_found": N_("There is no such invitation."),
    "class_name_taken": N_("Another class has that name. Choose another one."),
    "round_open": N_("A round is open. Wait for its end, or cancel it on its page."),
    "round_closed": N_("The round is over."),
    "round_not_done": N_("That round has no result to go back to."),
    "uploads_gone": N_("The uploads of that round are no longer kept. Go back to the round before it."),
    "last_class": N_("A fleet needs at least one class with a recording."),
    "too_many_classes": N_("The fleet has as many classes as it may have. Retire one first."),
    "device_revoked": N_("The device was revoked, or left. It needs a new invitation."),
    "feature_mismatch": N_("The device's features are not those of the fleet."),
    "no_devices": N_("No device can take part now."),
    "no_public_set": N_("The fleet has no public set yet. Publish one first."),
    "no_model": N_("This strategy shares a model, and none has been published yet."),
    "model_too_small": N_("The shared model has too few slots for the fleet's classes."),
    "model_replaced": N_("This round would replace the devices' own models. Say below whether it may."),
    "invalid_plan": N_("The round cannot be started with these settings."),
    "unknown_strategy": N_("There is no such strategy."),
    "unauthorised": N_("This token opens nothing here."),
    "too_many": N_("There were too many attempts. Wait, and try again."),
    "too_large": N_("What was sent is too large."),
    "too_slow": N_("What was sent arrived too slowly. Send it again."),
    "storage_full": N_("The server's disk is full. Make room on it; nothing was kept of what was sent."),
}
# By HTTP status, where there is no code that a page could know.
BY_STATUS = {
    404: N_("There is no page at this address."),
    405: N_("This address takes no such request. Go back, and open the page anew."),
    408: WORDS["too_slow"],
    413: WORDS["too_large"],
    422: N_("What was sent cannot be read."),
    503: N_("The server has too much to do at this moment. Try again."),
    507: WORDS["storage_full"],
}
_FOR_PROGRAMS = re.compile(r"(GET|POST|PUT|PATCH|DELETE) /|/v1/|/docs")


def plain(error: AggregatorError) -> str:
    """Return an error in plain words, in the language of the page."""
    return gettext(WORDS[error.code]) if error.code in WORDS else _said(error)


def details(error: AggregatorError) -> str:
    """Return what else the server says, in English, without the clauses that are for programs; empty where none is."""
    clauses = _said(error).split("; ") if error.code in WORDS else []
    return "; ".join(clause for clause in clauses if not _FOR_PROGRAMS.search(clause))


def _said(error: AggregatorError) -> str:
    return str(error).encode("utf-8", "backslashreplace").decode()
