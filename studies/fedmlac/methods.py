"""The methods of FedMLAC's table, the networks that they train, and what a device listens with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet_protocol.methods.setting import Value
from studies.fleets import LPA, MEAN

BASELINES, FEDMLAC = ("FedAvg", "FedProx", "FedOPT"), "FedMLAC"
METHODS = (*BASELINES, FEDMLAC)
CLEAN, HALF_WRONG = TUNED_ON = ("clean", "wrong 50%")
NOISE, WRONG = ("10 dB on devices", "10 dB everywhere"), ("wrong 30%", HALF_WRONG)
CONDITIONS = (CLEAN, *WRONG, *NOISE)
NO_LPA = "FedMLAC without LPA"
OFTEN, PAPERS_RATE = "visited often", "FedAvg, rate 0.01"
SOME = "30% of the devices in a round"
FLEETS_OF_FIVE, SCORES = "five networks", "zero_shot, five networks"


def some(of: str, condition: str) -> str:
    """Return the name of a run whose rounds are of some of the devices."""
    return f"{of}, {SOME}, {condition}"


def often(of: str, condition: str) -> str:
    """Return the name of a run whose devices are visited often."""
    return f"{OFTEN}: {of}, {condition}"


OWN, PLUG_IN = "crnn_base", "crnn_lite"
FIVE = ("crnn_tiny", "crnn_lite", "crnn_mid", "crnn_base", "crnn_deep")
WARM_UP: dict[str, Value] = {"warm_up": 5, "warm_up_rate": 0.02}
# What a device listens with: the round's model, or its own, after three passes over own clips and public labels.
LISTENING: dict[str, Value] = {"name": "local", "epochs": 3}


@dataclass(frozen=True)
class Method:
    """A method and its settings; ``own``: the architectures of the devices' own models, if they have any."""

    strategy: str
    local: Mapping[str, Value]
    aggregation: Mapping[str, Value] = field(default_factory=lambda: MEAN)
    shared: str = OWN
    own: tuple[str, ...] = ()

    @property
    def settings(self) -> dict[str, Value]:
        """Of the local method, with one pass over the clips and none over public ones, unless the method says so."""
        return {"epochs": 1, "rehearsal": 0.0, **self.local}


def fedavg(rate: float) -> Method:
    """Return FedAvg with a learning rate."""
    return Method("fedavg", {"learning_rate": rate})


def fedopt(rate: float, server: float) -> Method:
    """Return FedOPT with the devices' learning rate and the server's."""
    return Method("fedopt", {"learning_rate": rate}, MEAN | {"server_learning_rate": server})


def fedmlac(rate: float, share: float) -> Method:
    """Return FedMLAC with a learning rate and a, the labels' share in what the own model learns."""
    return Method("fedmlac", {"learning_rate": rate, "own_share": share} | WARM_UP, LPA, PLUG_IN, (OWN,))
