"""What a worker process of the benchmark does: it reads the corpus once, and then runs the trials of one seed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from benchmarks.class_discovery.trials import NEW, Corpus, FrontEnd, cases, read, run_trial
from benchmarks.class_discovery.unheard import run_strategy, run_unheard

_loaded: dict[str, Corpus] = {}


def load(archive: Path, front_end: FrontEnd, bundles: Path) -> None:
    """Read the corpus into this process."""
    _loaded["corpus"] = read(archive, front_end, bundles)


def trials(seed: int) -> dict[str, tuple[bool, float]]:
    """Return (exact, adjusted Rand index) of every case."""
    return {case.name: run_trial(_loaded["corpus"], case, seed) for case in cases(seed)}


def unheard(seed: int) -> list[dict[str, Any]]:
    """Return the rows of every new word."""
    return [dataclasses.asdict(row) for word in NEW for row in run_unheard(_loaded["corpus"], word, seed)]


def strategy(seed: int) -> list[dict[str, Any]]:
    """Return the rows of every new word by the strategy `prototypes`; none on cepstra."""
    corpus = _loaded["corpus"]
    return [dataclasses.asdict(row) for word in NEW if corpus.is_embedding for row in run_strategy(corpus, word, seed)]
