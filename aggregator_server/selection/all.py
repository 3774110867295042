"""Every device takes part."""

from __future__ import annotations

from aggregator_server.selection.contract import SEEN_WITHIN, Selection
from aggregator_server.selection.uniform import equal

SELECTION = Selection(
    "all",
    {"seen_within_s": SEEN_WITHIN},
    equal,
    about="All devices. The most is learned, and the most is sent.",
)
