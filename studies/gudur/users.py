"""The users of Gudur & Perepu 2021 (arXiv 2106.10019), tables 1 and 3: models, labels, and what happens to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.split import KEYWORDS, SOUNDS, deal
from fleet_protocol.methods.setting import Value
from fleet_simulator.errors import DivergedError
from fleet_simulator.experiment.faults import FaultsSection
from fleet_simulator.experiment.sections import (
    DataSection,
    EventSection,
    RoundsSection,
    UserSection,
    ZeroShotExperiment,
    ZeroShotSection,
)
from studies.fleets import rounds_of
from studies.run import Figures

# Table 1. The softmax activation of user 1 is taken to be the output's; hidden layers use ReLU.
ARCHITECTURES = ("cnn2", "cnn3", "dscnn3")
ALL_ARCHITECTURES = (*ARCHITECTURES, "ann3", "cnn1", "cnn4")
HELD_OUT = 0.2
"""Share of the users' own clips that nothing trains on, by which the model that listens is judged."""
POISONED_USERS = 6  # of the runs with attackers
_MET = 3  # before this round they meet the new sound


@dataclass(frozen=True)
class Application:
    """One of the paper's two."""

    labels: tuple[str, ...]  # in the paper's order; the last two are new
    source: str  # of ``[data]``
    folder: str  # of the recordings, or the archive
    windows: int  # of ``[data]``
    test: float  # share of the clips to judge by
    public: int  # clips of each label in the public set
    clips: tuple[int, int]  # of a label in a round
    arrivals: tuple[int, int]  # clips of a new sound at first, and later
    # over a round's clips, by the number of users: where there are many, there are more rounds
    passes: Mapping[int, int]


APPLICATIONS: dict[str, Application] = {
    "keywords": Application(
        KEYWORDS, "log_mel", "gsc_v2_logmel_jpg.zip", 1, 0.07, 300, (200, 300), (400, 500), {3: 6, 10: 2}
    ),
    "sounds": Application(
        SOUNDS, "urbansound8k", "urbansound8k_subset", 1, 0.15, 50, (40, 50), (50, 50), {3: 16, 6: 16, 10: 8}
    ),
}


def play(local: Mapping[str, Value], **chosen: Any) -> Figures:  # noqa: ANN401  (see `experiment_of`)
    """Run :func:`experiment_of`; one whose training diverges is run again at half the learning rate.

    Returns ``rounds``, as docs/simulator.md describes them, and the ``learning_rate`` of the last run.
    """
    settings = {"labels": False, **local}
    while True:
        try:
            played = rounds_of(experiment_of(local=settings, **chosen))
            return {"rounds": played, "learning_rate": settings["learning_rate"]}
        except DivergedError:
            settings["learning_rate"] = float(settings["learning_rate"]) / 2


def experiment_of(
    application: str,
    users: int,
    rounds: int,
    seed: int,
    bundles: Mapping[str, Path],
    data: Path,
    local: Mapping[str, Value],
    *,
    normalise: bool = True,
    by_speaker: bool = True,
    attackers: float | None = None,
    attack: str = "poisoned_impressions",
) -> ZeroShotExperiment:
    """Return an experiment whose users hold clips out, but refuse no result.

    Args:
        users: 3: those of table 1; 10: these in turn, with what table 3 does to them.
        local: settings of the local method; without ``labels`` the public set's are not trained on, as in the paper.
        normalise: whether the average of a label is divided by the sum of beta.
        attackers: share of the attackers about a new sound that all of them meet; None: the paper's schedule.
    """
    chosen = APPLICATIONS[application]
    return ZeroShotExperiment(
        DataSection(chosen.source, data, chosen.labels, test=chosen.test, windows=chosen.windows),
        RoundsSection(
            count=rounds,
            strategy="zero_shot",
            seed=seed,
            evaluate_every=5,
            local=dict(local),
            aggregation={"normalise": normalise, "above_chance": False, "clips_cap": 0.0},
        ),
        users_of(chosen, users, bundles, together=attackers is not None),
        ZeroShotSection(chosen.public, chosen.clips, by_speaker, held_out=HELD_OUT, guard=False),
        FaultsSection(attackers or 0.0, attack),
    )


def users_of(
    application: Application, count: int, bundles: Mapping[str, Path], *, together: bool
) -> tuple[UserSection, ...]:
    """Return 3 or 10 users, to whom happens what the paper says, or any number who meet a new sound together."""
    dealt, (first, later) = deal(application.labels), application.arrivals
    one, other = dealt.new
    events: dict[int, tuple[EventSection, ...]]
    if together:
        events = {number: (EventSection(_MET, one, first),) for number in range(1, count + 1)}
    elif count == len(dealt.devices):
        events = {
            1: (EventSection(4, one, first), EventSection(8, one, later)),
            2: (EventSection(4, one, first), EventSection(8, other, later)),
        }
    else:
        events = {
            1: (_model(6, bundles["ann3"]), _model(8, bundles["cnn1"])),
            2: (_model(4, bundles["cnn3"]), EventSection(6, one, first)),
            3: (_model(5, bundles["cnn4"]),),
            4: (EventSection(3, other, first), EventSection(7, other, later)),
            6: (EventSection(3, one, first), EventSection(5, one, later)),
            9: (EventSection(4, one, first),),
        }
    return tuple(
        UserSection(
            bundles[ARCHITECTURES[(number - 1) % 3]], dealt.devices[(number - 1) % 3], events=events.get(number, ())
        )
        for number in range(1, count + 1)
    )


def _model(round_id: int, bundle: Path) -> EventSection:
    return EventSection(round_id, bundle=bundle)
