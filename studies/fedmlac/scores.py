"""The fleet of five networks with the strategy ``zero_shot``, which shares scores of a public set and no network."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fleet_simulator.experiment.data_section import DataSection
from fleet_simulator.experiment.sections import RoundsSection
from fleet_simulator.experiment.zero_shot_sections import UserSection, ZeroShotExperiment, ZeroShotSection
from fleet_simulator.runs.progress import Silent
from fleet_simulator.simulation.run import run
from studies.run import Figures
from studies.simulated import shared_inputs

_ALL = 1_000_000  # clips of a label that a user takes into a round, at most


def shared_scores(
    data: Mapping[str, Any], bundles: Mapping[str, Path], users: int, rounds: int, public: int, rate: float, seed: int
) -> Figures:
    """Run rounds of one pass over all clips and the public set's labels.

    Args:
        data: what ``[data]`` has.
        bundles: by architecture; each user has a random one.
        users: how many.
        rounds: how many.
        public: clips of each label in the public set.
        rate: learning rate.
        seed: of everything random.

    Returns:
        ``own`` and ``strangers``: accuracy of the users' models on own clips held out and on the test clips, 0..1, as
        means over the users.
    """
    section = DataSection(**data)
    drawn = np.random.default_rng([seed, 3]).integers(len(bundles), size=users)
    models = [list(bundles.values())[number] for number in drawn]
    experiment = ZeroShotExperiment(
        section,
        RoundsSection(
            count=rounds,
            strategy="zero_shot",
            seed=seed,
            evaluate_every=rounds,
            local={"epochs": 1, "learning_rate": rate, "augmented_copies": 0, "distill_epochs": 1},
        ),
        tuple(UserSection(model, section.labels) for model in models),
        ZeroShotSection(public=public, clips=(_ALL, _ALL), held_out=0.2, guard=False),
    )
    with tempfile.TemporaryDirectory() as folder:
        found = run(experiment, Path(folder), 0, Silent(), inputs=shared_inputs()).rounds[-1]["users"]
    own, strangers = (float(np.mean([user[name] for user in found])) for name in ("own_after", "held_out_after"))
    return {"own": own / 100, "strangers": strangers / 100}
