"""Names of this study's methods, conditions and runs."""

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
