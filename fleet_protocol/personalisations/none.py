"""No personalisation: a device takes the round's result as it is."""

from __future__ import annotations

from fleet_protocol.personalisation import PersonalisationTerms

PERSONALISATION = PersonalisationTerms("none", {}, about="Every device listens with the fleet's model.")
