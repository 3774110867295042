"""`auricle-export pretrain`: from a corpus to a front end's file and a report."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from fleet_protocol.bundle.feature_settings import EmbeddingSettings, FrozenNetwork
from fleet_protocol.ground.atomic_files import write_durably
from fleet_protocol.numbers.known import Known, KnownWords
from fleet_protocol.numbers.tensors import pack
from model_export.errors import ExportError
from model_export.pretraining import front_end_file, read_speech
from model_export.pretraining.corpus import Division, divide, list_recordings, read_corpus, settings_of, speakers_of

if TYPE_CHECKING:
    from fleet_protocol.numbers.arrays import Floats
    from model_export.pretraining.joining import First
    from model_export.pretraining.training import Options, Progress, Training

_SIZES = ("base", "small", "words", "separable")
_CALIBRATION_CLIPS = 300


def add_arguments(pretrain: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    several: dict[str, Any] = {"type": Path, "action": "append", "metavar": "PATH"}
    pretrain.add_argument(
        "--data", required=True, help="archive of log-mel pictures, or folder of <label>/*; may be repeated", **several
    )
    pretrain.add_argument("--speech", type=Path, metavar="MARKS", help="where the words of read speech are, as JSON")
    pretrain.add_argument("--recordings", type=Path, metavar="FOLDER", help="the recordings of --speech")
    said = "who speaks in this folder is not trained on; may be repeated"
    pretrain.add_argument("--leave-out-speakers", default=[], help=said, **several)
    pretrain.add_argument("--leave-out-words", default="", metavar="A,B,..", help="kept for the few-shot report")
    pretrain.add_argument("--test", type=Path, metavar="FOLDER", help="test set of Speech Commands: twelve classes")
    said = "folder of <word>/<speaker>_* for the few-shot report; may be repeated"
    pretrain.add_argument("--few-shot", default=[], help=said, **several)
    pretrain.add_argument("--size", default="base", choices=_SIZES, help="size of the network (default: %(default)s)")
    said = "a network of the same words, set beside this one in the file"
    pretrain.add_argument("--beside", type=Path, metavar="FIRST.frontend", help=said)
    pretrain.add_argument("--steps", type=int, default=12_800, help="training steps (default: %(default)s)")
    pretrain.add_argument("--decay", type=int, default=0, help="steps over which the rate falls; 0: all (default)")
    pretrain.add_argument("--batch", type=int, default=128, help="clips of a step (default: %(default)s)")
    pretrain.add_argument("--learning-rate", type=float, default=2.5e-3, help="the highest (default: %(default)s)")
    pretrain.add_argument("--seed", type=int, default=0, help="of weights and draws (default: %(default)s)")
    pretrain.add_argument("--checkpoint-s", type=float, default=60.0, help="seconds between checkpoints (60)")
    pretrain.add_argument("--attribution", default="", metavar="TEXT", help="source and licence of the corpus")
    pretrain.add_argument("--json", action="store_true", help="print the report as JSON")
    pretrain.add_argument("-o", "--output", type=Path, required=True, help="file NAME.frontend")


def pretrain(chosen: argparse.Namespace, progress: TextIO) -> str:
    """Train, write the file, and return the report.

    Raises ExportError: an option, the corpus or the checkpoint cannot be used.
    """
    _require_sensible(chosen)
    for folder in (*chosen.few_shot, *filter(None, [chosen.test])):
        list_recordings(folder)  # refuses one without any before hours are spent
    silent = set[str]().union(*(speakers_of(path) for path in chosen.leave_out_speakers))
    left_out = [w for w in chosen.leave_out_words.split(",") if w]

    from model_export.pretraining.network import DESIGNS

    bands = DESIGNS[chosen.size].bands
    settings = settings_of(bands)
    division = divide(read_corpus(chosen.data, settings), silent, left_out)
    speech = read_speech.read(chosen.speech, chosen.recordings, silent, left_out, settings) if chosen.speech else None

    from model_export.pretraining.batches import Batches
    from model_export.pretraining.joining import read_first
    from model_export.pretraining.training import Options, Training
    from model_export.pretraining.variants import SEPARABLE, WORDS, Augmentation

    first = read_first(chosen.beside, bands, division.training.vocabulary) if chosen.beside else None
    words, separable = chosen.size in ("words", "separable"), chosen.size == "separable"
    options = Options(
        chosen.size,
        chosen.steps,
        chosen.batch,
        chosen.learning_rate,
        decay=chosen.decay,
        backwards=1 / 4 if words else 1 / 3,
        cosine=float(words),
        phones=0.5 if separable else 0.0,
        pairs=0.2 if separable else 0.0,
        seed=chosen.seed,
        checkpoint_s=chosen.checkpoint_s,
    )
    variants = {"words": WORDS, "separable": SEPARABLE}.get(chosen.size, Augmentation())
    batches = Batches(division.training, variants, options.batch, options.backwards, options.seed, speech)
    checkpoint = chosen.output.with_suffix(".checkpoint")
    digest = division.training.digest() + (f" {speech.digest()}" if speech else "")
    training = Training(options, batches, checkpoint, digest)

    def report(at: Progress) -> None:
        left = f"{at.remaining_s / 60:.1f} minutes left"
        print(f"step {at.step} of {at.steps}, loss {at.loss:.3f}, {left}", file=progress, flush=True)

    training.run(report)
    document = _finish(chosen, training, division, digest, first)
    return json.dumps(document, indent=1) if chosen.json else "\n".join(_lines(document))


def _require_sensible(chosen: argparse.Namespace) -> None:
    for name, least in (("steps", 1), ("batch", 2)):
        if getattr(chosen, name) < least:
            raise ExportError(f"--{name} must be at least {least}, not {getattr(chosen, name)}")
    if not 0 <= chosen.seed < 2**32:
        raise ExportError(f"--seed must be from 0 to {2**32 - 1}, not {chosen.seed}")  # JAX would drop higher bits
    if not 0 <= chosen.decay <= chosen.steps:
        raise ExportError(f"--decay must be 0 to --steps, {chosen.steps}, not {chosen.decay}")
    if bool(chosen.speech) != bool(chosen.recordings):
        raise ExportError("--speech and --recordings need each other; give both")
    for name in ("learning_rate", "checkpoint_s"):
        if not getattr(chosen, name) > 0:
            raise ExportError(f"--{name.replace('_', '-')} must be positive, not {getattr(chosen, name)}")
    front_end_file.require_output(chosen.output)


def _finish(
    chosen: argparse.Namespace, training: Training, division: Division, digest: str, first: First | None
) -> dict[str, Any]:
    """Convert, measure, write the file; return the report."""
    from model_export import cost
    from model_export.pretraining import conversion, measurement
    from model_export.pretraining.network import SIGNATURE

    options, design, head = training.options, training.design, training.head()
    network = conversion.fold({**training.state.weights, **training.state.moving}, design)
    size, half = options.size, design.half
    if first:
        network = conversion.side_by_side(conversion.build(first.design, first.weights, "first"), network)
        size, half, head = f"{first.description['network']['size']} and {size}", True, first.with_head(head)
    float32 = conversion.float32_graph(network, half)
    int8 = b"" if half else conversion.int8_graph(network, _calibration(training, options))
    statistics = measurement.statistics(float32, training.batches, options.seed)
    known = Known(of_words=KnownWords(statistics.words, head["head/kernel"], head["head/bias"]))
    statistics = dataclasses.replace(statistics, known=known)
    embeddings = measurement.Embeddings(float32, int8, head, division, statistics)
    numbers = len(head["head/kernel"])
    report = {
        "network": {
            "size": size,
            "multiply_adds": cost.multiply_adds_of(float32, SIGNATURE),
            "weights": network.count_params(),
            "embedding": numbers,
            "bytes_float32": len(float32),
            "bytes_int8": len(int8),
        },
        "training": training.identity,
        **({"beside": first.description} if first else {}),
        "closed_set": {
            title: dataclasses.asdict(result) for title, result in embeddings.closed_sets(chosen.test).items()
        },
        "few_shot": [dataclasses.asdict(case) for case in embeddings.few_shot(chosen.few_shot, options.seed)],
    }
    features = EmbeddingSettings(
        **{**dataclasses.asdict(settings_of(design.bands)), "preset": chosen.output.stem},
        numbers=numbers,
        network=FrozenNetwork.of(float32),
    )
    description = {
        "name": chosen.output.stem,
        "features": features.to_json(),
        "corpus": {
            "sha256": digest,
            "clips": len(division.training),
            "words": list(division.training.vocabulary),
            "speakers": len(set(division.training.speakers)),
            "words_left_out": list(division.new_words.vocabulary),
        },
        "attribution": chosen.attribution,
        **report,
    }
    data = front_end_file.serialise(description, float32, int8, statistics.pack(), head=pack(head, {}))
    write_durably(chosen.output, data, 0o644)
    return {"file": str(chosen.output), "bytes": len(data), **report}


def _calibration(training: Training, options: Options) -> Floats:
    """Draw variants that no step was trained on."""
    draws = range(options.steps + 1, options.steps + 2 + _CALIBRATION_CLIPS // options.batch)
    return np.concatenate([training.batches.at(step)[0] for step in draws])[:_CALIBRATION_CLIPS]


def _lines(report: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a report, whose fields docs/pretraining.md explains."""
    cost = report["network"]
    yield (
        f"{cost['size']}: {cost['multiply_adds'] / 1e6:.2f} million multiply-adds, {cost['weights']:,} weights, "
        f"embedding {cost['embedding']}"
    )
    for title, result in report["closed_set"].items():
        yield f"{title}: {result['percent']:.2f} % of {result['clips']} clips, {result['classes']} classes"
    if report["few_shot"]:
        yield f"{'words left out of training':<28} ways  takes x speakers  same speaker %  other speakers %"
    for case in report["few_shot"]:
        same, other = ("-" if case[who] is None else f"{case[who]:.1f}" for who in ("same_speaker", "other_speakers"))
        taught = f"{case['ways']:>4}  {case['takes']:>5} x {case['speakers']:<8}"
        yield f"{case['corpus']:<28} {taught}  {same:>14}  {other:>16}"
    for title, result in report["closed_set"].items():
        confusions = ", ".join(f"{c['word']} as {c['taken_for']} {c['percent']:g} %" for c in result["confusions"])
        if confusions:
            yield f"{title}, most frequent confusions: {confusions}"
