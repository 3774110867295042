"""No personalisation: a device takes the round's result as it is."""

from edge_client.learning.personalisations.personalisation import Personalisation
from fleet_protocol.personalisations import NONE as TERMS

PERSONALISATION = Personalisation("none", TERMS.settings, about=TERMS.about)
