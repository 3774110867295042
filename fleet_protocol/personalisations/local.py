"""Local fine-tuning: every device trains the round's result further on its own clips."""

from __future__ import annotations

from fleet_protocol.personalisation import FINE_TUNING, PersonalisationTerms

PERSONALISATION = PersonalisationTerms(
    "local",
    FINE_TUNING,
    about="Every device fine-tunes the fleet's model on its own clips. It costs a second, shorter training.",
)
