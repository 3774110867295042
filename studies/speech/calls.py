"""What the study of speech recognition runs: a fleet by one method, devices alone, and draws without training.

Each returns figures that JSON can hold. Those of one seed share a deal of the speakers, and all seeds one start.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aggregator_server.strategies.selection import History
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.messages.rest import Choice
from fleet_protocol.numbers.arrays import Doubles
from studies.run import Figures
from studies.selection.clips import drawing
from studies.speech.data import Counts, Speakers
from studies.speech.fleet import Method, Personal, SpeechFleet
from studies.speech.start import Pretraining, started
from studies.speech.training import Transcriber


def shared_model(method: Method, rounds: int, personal: Personal | None = None, **deal: Any) -> Figures:  # noqa: ANN401  (see `_fleet`)
    """Train a global model, test it, and personalise it.

    Returns:
        ``rounds`` as :meth:`SpeechFleet.rounds` says; ``server_test``, the global model's error rate on the server's
        test; ``devices``, on every device's own test, as :meth:`SpeechFleet.personal` says; and ``processor_s``.
    """
    fleet, clock = _fleet(**deal), time.process_time()
    weights, entries = fleet.rounds(method, rounds)
    devices = fleet.personal(weights, personal) if personal else fleet.tested(weights)
    server_test = fleet.error_rate(weights, fleet.server_test)
    spent = time.process_time() - clock
    return {"rounds": entries, "server_test": server_test, "devices": devices, "processor_s": spent}


def without_fleet(rate: float, passes: int, **deal: Any) -> Figures:  # noqa: ANN401  (see `_fleet`)
    """Return what the start is worth, and what devices make of it alone; see :func:`shared_model`.

    Returns:
        ``development`` and ``server_test`` of the start; ``devices`` with the error rates ``start`` and ``alone`` on
        their own tests; ``seconds`` of speech in their recordings to train on; and ``processor_s``.
    """
    fleet, clock = _fleet(**deal), time.process_time()
    tested, trained = fleet.tested(fleet.start, "start"), fleet.alone(rate, passes)
    return {
        "development": fleet.error_rate(fleet.start, fleet.development),
        "server_test": fleet.error_rate(fleet.start, fleet.server_test),
        "devices": [device | {"alone": alone} for device, alone in zip(tested, trained, strict=True)],
        "seconds": fleet.recorded(),
        "processor_s": time.process_time() - clock,
    }


def centrally(rate: float, passes: int, **deal: Any) -> Figures:  # noqa: ANN401  (see `_fleet`)
    """Train the start on all devices' utterances in one place; see :func:`shared_model`.

    Returns:
        ``development`` and ``server_test``; ``devices`` with the error rate ``global`` on their own tests; and
        ``processor_s``.
    """
    fleet, clock = _fleet(**deal), time.process_time()
    weights = fleet.central(rate, passes)
    return {
        "development": fleet.error_rate(weights, fleet.development),
        "server_test": fleet.error_rate(weights, fleet.server_test),
        "devices": fleet.tested(weights),
        "processor_s": time.process_time() - clock,
    }


@functools.lru_cache(maxsize=1)
def _fleet(archive: Path, folder: Path, counts: Counts, pretraining: Pretraining, seed: int) -> SpeechFleet:
    """Return a deal's fleet."""
    model = Transcriber(read_bundle(started(archive, pretraining, folder)))
    return SpeechFleet(model, Speakers(archive).deal(counts, seed), counts.train, seed)


def draws(
    sizes: Sequence[float],
    settings: Sequence[tuple[int, int]],
    fraction: float,
    published: Mapping[str, float],
    seeds: int,
) -> Figures:
    """Draw devices for many fleets, without training: how much less data dynamic selection has trained on at the end.

    Args:
        published: what it saved, by setting as in ``30/50``, in per cent.

    Returns:
        By setting: ``mean`` and ``spread`` of what is saved against an even draw, in per cent; the ``share`` of the
        fleets that save as much as published; and the same against a draw by size, ``mean_prox`` and ``spread_prox``.
    """
    last = max(rounds for _, rounds in settings)
    even, by_size = (
        np.array([_drawn(sizes, Choice(name, {"fraction": fraction}), last, seed) for seed in range(seeds)])
        for name in ("uniform", "size_proportional")
    )
    found: dict[str, dict[str, float]] = {}
    for switch, rounds in settings:
        choice = Choice("dynamic", {"fraction": fraction, "switch_round": switch})
        # Other seeds than the baselines': the paper's runs too drew for themselves.
        dynamic = np.array([_drawn(sizes, choice, rounds, seeds + seed).sum() for seed in range(seeds)])
        name = f"{switch}/{rounds}"
        saved, saved_prox = (100 * (1 - dynamic / base[:, :rounds].sum(axis=1)) for base in (even, by_size))
        found[name] = {
            "mean": float(saved.mean()),
            "spread": float(saved.std()),
            "share": float((saved >= published[name]).mean()) if name in published else float("nan"),
            "mean_prox": float(saved_prox.mean()),
            "spread_prox": float(saved_prox.std()),
        }
    return found


def _drawn(sizes: Sequence[float], choice: Choice, rounds: int, seed: int) -> Doubles:
    """Return the data of each round's devices, float64 [rounds]."""
    draw = drawing(sizes, choice)
    return np.array([sum(sizes[one] for one in draw(History(number), (seed, number))) for number in range(rounds)])
