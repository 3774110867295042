"""No personalisation: a device takes the round's result as it is."""

from __future__ import annotations

from edge_client.learning.personalisations.personalisation import Personalisation

PERSONALISATION = Personalisation("none", {}, about="Every device listens with the fleet's model.")
