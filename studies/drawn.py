"""Which pictures docs/results.md has, by table.

They stand here and not in the tables' modules, so that the digest of a run's code does not cover what is drawn of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

from studies.attackers import table as attackers
from studies.pictures import Picture, Series, error, over_clips, over_rounds, over_values, share
from studies.run import Figures


def _accuracy(runs: Mapping[str, str]) -> dict[str, Series]:
    """Return lines of the shared model's accuracy, by their labels; ``runs``: names by label."""
    return {label: (run, share("accuracy")) for label, run in runs.items()}


def _of_users(key: str) -> Callable[[Figures], float | None]:
    """Return what takes the mean over a round's users, in per cent; None where none has the figure."""

    def mean(entry: Figures) -> float | None:
        found = [float(user[key]) for user in entry["users"] if user.get(key) is not None]
        return fmean(found) if found else None

    return mean


def _zero_shot(application: str) -> dict[str, Series]:
    run = f"{application}, 3 users, scores"
    return {"the fleet's scores": (run, _of_users("global_accuracy")), "own models": (run, _of_users("local_accuracy"))}


def _personal(model: str) -> dict[str, Series]:
    local, balanced = f"{model}, local", f"{model}, group balanced"
    return {
        "global": (local, error("global")),
        "personal": (local, error("personal")),
        "personal, by groups": (balanced, error("personal")),
    }


def _speech(method: str) -> dict[str, Series]:
    run = f"{method}, dynamic, 30/50"
    return {
        "global": (run, share("global")),
        "personal": (run, share("local")),
        "personal, by groups": (run, share("group_balanced")),
    }


def _often(condition: str) -> dict[str, Series]:
    fedavg, mutual = (f"visited often: {method}, {condition}" for method in ("FedAvg", "FedMLAC"))
    return {
        "FedAvg, shared": (fedavg, share("accuracy")),
        "FedAvg, local": (fedavg, share("local_strangers")),
        "FedMLAC, plug-in": (mutual, share("accuracy")),
        "FedMLAC, own": (mutual, share("local_strangers")),
    }


_MLAC = ("FedAvg", "FedProx", "FedOPT", "FedMLAC")
_LABELS = ("clean", "wrong 50%")
_UI = ("FedAvg", "FedMMD (logits)", "FedOPT", "FedKWS-UI")
_UI_SETTINGS = ("DSCNN, 12 steps", "base, 50 steps")
_SELECTED = {"FedAvg": ("FedAvg", "FedAvg, R = 50"), "FedProx": ("FedProx 0.1", "FedProx 0.1, R = 30")}
_SPEECH = ("FedAvg", "FedProx")
_STRENGTHS = (0.0, *attackers.STRENGTHS)

PICTURES: dict[str, Sequence[Picture]] = {
    "gudur": [
        over_rounds(
            "zero-shot",
            "Zero-shot learning: accuracy of the fleet's scores and of the users' own models over the iterations, "
            "three users.",
            {application: _zero_shot(application) for application in ("keywords", "sounds")},
            "accuracy, %",
        )
    ],
    "fedmlac": [
        over_rounds(
            "fedmlac",
            "FedMLAC against its baselines: accuracy of the shared model on people whom no device has heard, over the "
            "rounds; clean labels, and half of the labels wrong.",
            {title: _accuracy({method: f"{method}, {title}" for method in _MLAC}) for title in _LABELS},
            "accuracy, %",
        ),
        over_rounds(
            "fedmlac-often",
            "FedMLAC and FedAvg where devices are visited often: accuracy of the shared model, and mean of the local "
            "ones, on people whom no device has heard, over the rounds; clean labels, and half of the labels wrong.",
            {title: _often(title) for title in _LABELS},
            "accuracy, %",
        ),
    ],
    "kws_ui": [
        over_rounds(
            "kws-ui",
            "FedKWS-UI against its baselines: accuracy on people whom no device has heard, over the rounds.",
            {title: _accuracy({method: f"{title}: {method}" for method in _UI}) for title in _UI_SETTINGS},
            "accuracy, %",
        )
    ],
    "selection": [
        over_rounds(
            "selection",
            "Dynamic selection: accuracy of the shared model on people whom no device has heard, over the rounds.",
            {title: _accuracy({"own selection": own, "dynamic": by}) for title, (own, by) in _SELECTED.items()},
            "accuracy, %",
        ),
        over_clips(
            "personalisation",
            "Personalisation: errors on a device's own clips over the clips that it trains on; a mark is a device.",
            {model: _personal(model) for model in ("FedAvg, R = 30", "FedProx 0.01, R = 30")},
            "error, %",
        ),
    ],
    "speech": [
        over_rounds(
            "speech",
            "Speech recognition: character error rate on the server's development speakers, over the rounds.",
            {
                method: {
                    "own selection": (f"{method}, 30/50", share("development")),
                    "dynamic": (f"{method}, dynamic, 30/50", share("development")),
                }
                for method in _SPEECH
            },
            "character error rate, %",
        ),
        over_clips(
            "speech-personalisation",
            "Speech recognition: character error rate on a device's own test over the utterances of a pass; a "
            "mark is a device.",
            {method: _speech(method) for method in _SPEECH},
            "character error rate, %",
            "utterances",
        ),
    ],
    "attackers": [
        over_values(
            "attack-strength",
            "Loss of accuracy over the strength of an attack by three in ten devices (they flip the sign of their "
            "update and enlarge it): rules of aggregation, one seed, half of the table's rounds.",
            {rule: {value: attackers.strength_name(rule, value) for value in _STRENGTHS} for rule in attackers.RULES},
            attackers.loss_at,
            "strength of the attack",
            "loss, points of accuracy",
        )
    ],
}


def pictures_of(tables: Iterable[str]) -> list[Picture]:
    """Return the pictures of tables, in their order."""
    return [picture for name in tables for picture in PICTURES.get(name, ())]
