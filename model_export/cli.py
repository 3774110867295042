# PYTHON_ARGCOMPLETE_OK
"""`auricle-export`: build model bundles, look into them, and list those that come with Auricle."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fleet_protocol.atomic_files import write_durably
from fleet_protocol.bundle import manifest_json, read_bundle
from fleet_protocol.command_line import describe_missing, parse, program, with_version
from fleet_protocol.errors import AuricleError
from fleet_protocol.feature_settings import PRESETS
from fleet_protocol.ready_bundles import find_bundle
from fleet_protocol.tensors import unpack
from model_export import plain, speed, wake_word
from model_export.errors import ExportError
from model_export.feature_statistics import Normalisation, features_of
from model_export.front_ends import PRECISIONS, SHIPPED, TRAINED, find_front_end
from model_export.pretraining import command as pretraining
from model_export.ready_bundles import listing
from model_export.sounds import command as sounds
from model_export.specification import ACTIVATIONS, ALPHABET, DOWNSAMPLINGS, Specification
from model_export.speech_embedding import command as speech_embedding
from model_export.speech_embedding.package import NAME as SPEECH_EMBEDDING
from model_export.zoo import ARCHITECTURES

if TYPE_CHECKING:
    from fleet_protocol.arrays import Floats
    from fleet_protocol.tensors import Arrays


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    root = argparse.ArgumentParser(prog="auricle-export", description="Build models that train on a device.")
    commands = root.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build model bundles")
    build.add_argument("architecture", nargs="+", choices=ARCHITECTURES, help="several share one -o folder")
    build.add_argument(
        "--features",
        default="gudur",
        metavar="NAME",
        help=f"{', '.join([*PRESETS, *SHIPPED, SPEECH_EMBEDDING])}, or a file NAME.frontend (default: %(default)s)",
    )
    build.add_argument(
        "--front-end-precision", default="float32", choices=PRECISIONS, help="of the front end's network"
    )
    build.add_argument(
        "--train",
        default="head",
        choices=TRAINED,
        help="what of a pretrained network trains with the head (default: %(default)s, nothing of it)",
    )
    build.add_argument("--capacity", type=int, default=32, help="slots for classes (default: %(default)s)")
    build.add_argument(
        "--alphabet",
        default=ALPHABET,
        metavar="TEXT",
        help="characters that a network that transcribes can write (default: a to z, space and apostrophe)",
    )
    build.add_argument("--batch", type=int, default=32, help="rows of a training step (default: %(default)s)")
    build.add_argument("--activation", default="relu", choices=ACTIVATIONS, help="of hidden layers")
    build.add_argument("--downsampling", default="stride", choices=DOWNSAMPLINGS, help="how activations shrink")
    build.add_argument("--width", type=float, default=1.0, help="share of channels and units (default: %(default)s)")
    build.add_argument("--seed", type=int, default=0, help="of the initial weights (default: %(default)s)")
    build.add_argument(
        "--recordings", type=Path, metavar="DIR", help="<label>/*.wav to measure normalisation and int8 ranges on"
    )
    build.add_argument(
        "--weights", type=Path, metavar="FILE", help="trained weights (.safetensors) instead of seeded ones"
    )
    build.add_argument("--labels", metavar="A,B,..", help="names of the first slots; what --tflite models tell apart")
    build.add_argument("--tflite", action="store_true", help="also write plain float32 and int8 inference models")
    build.add_argument("-o", "--output", type=Path, required=True, help="bundle file, or a folder for several")
    pretraining.add_arguments(commands.add_parser("pretrain", help="train a front end's network on a corpus"))
    speech_embedding.add_arguments(
        commands.add_parser(
            "speech-embedding", help="make a front end of Google's speech embedding and your recordings"
        )
    )
    sounds.add_arguments(
        commands.add_parser("sounds", help="make the front ends for everyday sounds of EfficientAT's weights")
    )
    measure = commands.add_parser("measure", help="print what a bundle costs on this machine, its front end included")
    measure.add_argument("bundle", help="an .auricle bundle, or the name of a ready one")
    measure.add_argument("--threads", type=int, default=1, metavar="N", help="of the graph (default: %(default)s)")
    measure.add_argument(
        "--samples",
        type=int,
        default=speed.EPOCH,
        metavar="N",
        help=f"clips to train on; the seconds are scaled to {speed.EPOCH:,} (default: %(default)s)",
    )
    measure.add_argument("--json", action="store_true", help="print the figures as a JSON object")
    inspect = commands.add_parser("inspect", help="print a bundle's manifest and operators")
    inspect.add_argument("file", help="an .auricle bundle, the name of a ready one, or a .tflite model")
    plain.add_arguments(
        commands.add_parser("plain", help="write a bundle as a plain .tflite, a list of labels, and a C header")
    )
    wake_word.add_arguments(
        commands.add_parser("openwakeword", help="write a taught word as a classifier that openWakeWord loads")
    )
    commands.add_parser("list", help="list the bundles and front ends that come with Auricle; needs no TensorFlow")
    return with_version(root)


@program
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status: 0, or 1 after an error message."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    chosen = parse(parser(), arguments)
    warnings: list[str] = []
    try:
        with os.fdopen(os.dup(2), "w") as terminal, _native_output_hidden():
            if chosen.command == "build":
                warnings = _build(chosen)
            elif chosen.command == "pretrain":
                print(pretraining.pretrain(chosen, terminal))
            elif chosen.command == "measure":
                figures = speed.measure(find_bundle(chosen.bundle), chosen.threads, chosen.samples)
                print(json.dumps(figures) if chosen.json else "\n".join(speed.describe(figures, chosen.threads)))
            elif chosen.command == "plain":
                print("\n".join(str(path) for path in plain.export(chosen)))
            elif chosen.command == "openwakeword":
                print(wake_word.export(chosen))
            elif chosen.command == "list":
                print("\n".join(listing()))
            elif chosen.command == "speech-embedding":
                print(speech_embedding.make(chosen, terminal))
            elif chosen.command == "sounds":
                print(sounds.make(chosen, terminal))
            else:
                _inspect(find_bundle(chosen.file))
    except BrokenPipeError:
        raise  # nobody reads on
    except (AuricleError, OSError) as error:
        print(f"auricle-export: {error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        print(f"auricle-export: {describe_missing(error, 'export')}", file=sys.stderr)
        return 1
    for warning in warnings:
        print(f"auricle-export: {warning}", file=sys.stderr)
    return 0


@contextlib.contextmanager
def _native_output_hidden() -> Iterator[None]:
    """Hide what TensorFlow's C++ side writes to standard error; show it where an unexpected exception ends it."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        try:
            yield
        except AuricleError:
            raise
        except BaseException:
            written.seek(0)
            os.write(terminal, written.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)


def _build(chosen: argparse.Namespace) -> list[str]:
    """Write what was asked for; return what the user should know of it."""
    folder = len(chosen.architecture) > 1 or chosen.output.is_dir()
    if chosen.weights and len(chosen.architecture) > 1:
        raise ExportError("--weights fit one architecture; build the others in calls of their own")
    front_end = find_front_end(chosen.features, chosen.front_end_precision, chosen.train)
    settings = front_end.settings
    features = features_of(chosen.recordings, settings) if chosen.recordings else None
    if features is not None and front_end.pretrained is None:
        normalisation = Normalisation.measure(features)
    else:
        normalisation = front_end.normalisation or Normalisation.default(settings)
    weights = unpack(chosen.weights.read_bytes())[0] if chosen.weights else None

    specifications = [
        Specification(
            architecture,
            settings,
            normalisation,
            chosen.capacity,
            chosen.batch,
            chosen.activation,
            chosen.downsampling,
            chosen.width,
            chosen.seed,
            front_end.statistics,
            front_end.pretrained,
            chosen.alphabet,
        )
        for architecture in chosen.architecture
    ]

    from model_export import cost
    from model_export.bundle import build_bundle

    warnings = []
    for specification in specifications:
        path = chosen.output / f"{specification.architecture}.auricle" if folder else chosen.output
        write_durably(path, build_bundle(specification, weights), 0o644)
        print(path)
        multiply_adds = cost.training_multiply_adds(read_bundle(path, transcribes=True).graph, specification.batch)
        if cost.too_large(multiply_adds):
            warnings.append(f"{specification.architecture}: {cost.describe(multiply_adds)}")
        if chosen.tflite:
            _write_inference_models(path, specification, chosen.labels, features)
    return warnings


def _write_inference_models(
    path: Path, specification: Specification, labels: str | None, features: Floats | None
) -> None:
    """Write NAME.float32.tflite and NAME.int8.tflite beside a bundle, with its weights; and NAME.labels.txt."""
    from model_export.inference import Inference

    names = labels.split(",") if labels else []
    weights: Arrays = read_bundle(path).weights
    model = Inference(specification, weights, len(names) or specification.capacity)
    files = {".float32.tflite": model.float32(), ".int8.tflite": model.int8(features)}
    if names:
        files[".labels.txt"] = "".join(f"{name}\n" for name in names).encode()
    for suffix, data in files.items():
        write_durably(path.with_suffix(suffix), data, 0o644)
        print(path.with_suffix(suffix))


def _inspect(path: Path) -> None:
    from model_export import cost
    from model_export.graph_operators import operators_by_signature, require_builtin

    if zipfile.is_zipfile(path):
        bundle = read_bundle(path, transcribes=True)
        graph = bundle.graph
        print(json.dumps(manifest_json(bundle.manifest), indent=1, sort_keys=True))
        multiply_adds = cost.training_multiply_adds(graph, bundle.manifest.batch)
        print(f"{bundle.manifest.architecture}: {cost.describe(multiply_adds)}")
    else:
        graph = path.read_bytes()
    for signature, operators in operators_by_signature(graph).items():
        print(f"{signature}: " + ", ".join(f"{name} {count}" for name, count in sorted(operators.items())))
    require_builtin(graph)


if __name__ == "__main__":
    sys.exit(main())
