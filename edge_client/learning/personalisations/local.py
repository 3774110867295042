"""Local fine-tuning: every device trains the round's result further on its own clips."""

from __future__ import annotations

from edge_client.learning.personalisations.personalisation import FINE_TUNING, Personalisation, fine_tuned

PERSONALISATION = Personalisation(
    "local",
    FINE_TUNING,
    fine_tuned,
    about="Every device fine-tunes the fleet's model on its own clips. It costs a second, shorter training.",
)
