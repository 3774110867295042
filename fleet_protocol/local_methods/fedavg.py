"""FedAvg (McMahan et al. 2017): nothing but what every method has that trains the shared model."""

from __future__ import annotations

from fleet_protocol.local_method import MethodTerms
from fleet_protocol.local_methods.settings import SHARED_MODEL

METHOD = MethodTerms("fedavg", SHARED_MODEL)
