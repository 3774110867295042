"""Every device takes part."""

from aggregator_server.selection.draw import SEEN_WITHIN, Selection
from aggregator_server.selection.uniform import equal

SELECTION = Selection(
    "all", {"seen_within_s": SEEN_WITHIN}, equal, about="All devices. The most is learned, and the most is sent."
)
