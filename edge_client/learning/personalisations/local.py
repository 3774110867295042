"""Local fine-tuning: every device trains the round's result further on its own clips."""

from edge_client.learning.personalisations.personalisation import Personalisation, fine_tuned
from fleet_protocol.personalisations import LOCAL as TERMS

PERSONALISATION = Personalisation("local", TERMS.settings, fine_tuned, about=TERMS.about)
