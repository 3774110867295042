"""Group-balanced personalisation (Xu et al. 2025): a device does what ``local`` does, the aggregator makes groups."""

from edge_client.learning.personalisations.personalisation import Personalisation, fine_tuned
from fleet_protocol.personalisations import GROUP_BALANCED as TERMS

PERSONALISATION = Personalisation("group_balanced", TERMS.settings, fine_tuned, groups=TERMS.groups, about=TERMS.about)
