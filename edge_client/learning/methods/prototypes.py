"""Prototypes: devices share mean embeddings, and each fits a head of its own (docs/methods.md, "Prototypes")."""

from edge_client.learning.methods.local_method import UnsharedMethod
from edge_client.learning.rounds.prototype_sharing import PrototypeRound
from fleet_protocol.methods.local_methods import PROTOTYPES as TERMS

METHOD = UnsharedMethod("prototypes", TERMS.settings, PrototypeRound, summed=True)
