# PYTHON_ARGCOMPLETE_OK
"""`auricle-export`: build model bundles, look into them, and list those that come with Auricle."""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from fleet_protocol.bounded_files import require_regular
from fleet_protocol.bundle.bundle_file import manifest_json, read_bundle
from fleet_protocol.bundle.feature_settings import PRESETS
from fleet_protocol.bundle.ready_bundles import LARGEST_BYTES, find_bundle
from fleet_protocol.errors import AuricleError
from fleet_protocol.ground.atomic_files import write_durably
from fleet_protocol.ground.command_line import describe_missing, parse, program, with_version
from model_export import epoch_and_latency
from model_export.feature_statistics import Normalisation, features_of
from model_export.front_ends import PRECISIONS, SHIPPED, find_front_end
from model_export.pretraining import command as pretraining
from model_export.ready_bundles import listing
from model_export.sounds import command as sounds
from model_export.sounds import names
from model_export.specification import Specification
from model_export.zoo import ARCHITECTURES


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    root = argparse.ArgumentParser(prog="auricle-export", description="Build models that train on a device.")
    commands = root.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build model bundles")
    build.add_argument("architecture", nargs="+", choices=ARCHITECTURES, help="several share one -o folder")
    said = f"{', '.join([*PRESETS, *SHIPPED])}, or a file NAME.frontend (default: %(default)s)"
    build.add_argument("--features", default="gudur", metavar="NAME", help=said)
    build.add_argument(
        "--front-end-precision", default="float32", choices=PRECISIONS, help="of the front end's network"
    )
    build.add_argument("--capacity", type=int, default=32, help="slots for classes (default: %(default)s)")
    build.add_argument("--batch", type=int, default=32, help="rows of a training step (default: %(default)s)")
    build.add_argument("--width", type=float, default=1.0, help="share of channels and units (default: %(default)s)")
    build.add_argument("--seed", type=int, default=0, help="of the initial weights (default: %(default)s)")
    build.add_argument("--recordings", type=Path, metavar="DIR", help="<label>/*.wav to measure the normalisation on")
    build.add_argument("-o", "--output", type=Path, required=True, help="bundle file, or a folder for several")
    build.set_defaults(run=_build)
    pretrain = commands.add_parser("pretrain", help="train a front end's network on a corpus")
    pretraining.add_arguments(pretrain)
    pretrain.set_defaults(run=lambda chosen, terminal: print(pretraining.pretrain(chosen, terminal)))
    made = commands.add_parser("sounds", help="make the front ends for everyday sounds of EfficientAT's weights")
    sounds.add_arguments(made)
    made.set_defaults(run=lambda chosen, terminal: print(sounds.make(chosen, terminal)))
    named = commands.add_parser("names", help="make the names by which sounds are guessed, of its classes")
    names.add_arguments(named)
    named.set_defaults(run=lambda chosen, _: print(names.make(chosen)))
    measure = commands.add_parser("measure", help="print what a bundle costs on this machine, its front end included")
    measure.add_argument("bundle", help="an .auricle bundle, or the name of a ready one")
    measure.add_argument("--threads", type=int, default=1, metavar="N", help="of the graph (default: %(default)s)")
    said = f"clips to train on; the seconds are scaled to {epoch_and_latency.EPOCH:,} (default: %(default)s)"
    measure.add_argument("--samples", type=int, default=epoch_and_latency.EPOCH, metavar="N", help=said)
    measure.add_argument("--json", action="store_true", help="print the figures as a JSON object")
    measure.set_defaults(run=_measure)
    inspect = commands.add_parser("inspect", help="print a bundle's manifest and operators")
    inspect.add_argument("file", help="an .auricle bundle, the name of a ready one, or a .tflite model")
    inspect.set_defaults(run=_inspect)
    about = "list the bundles and front ends that come with Auricle; needs no TensorFlow"
    commands.add_parser("list", help=about).set_defaults(run=lambda *_: print("\n".join(listing())))
    return with_version(root)


@program
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status: 0, or 1 after an error message."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    chosen = parse(parser(), arguments)
    if chosen.command != "pretrain":  # which JAX does on an accelerator where there is one
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    try:
        with os.fdopen(os.dup(2), "w") as terminal, _native_output_hidden():
            chosen.run(chosen, terminal)
    except BrokenPipeError:
        raise  # nobody reads on
    except (AuricleError, OSError) as error:
        print(f"auricle-export: {error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        print(f"auricle-export: {describe_missing(error, 'export')}", file=sys.stderr)
        return 1
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


def _build(chosen: argparse.Namespace, terminal: TextIO) -> None:
    """Write what was asked for, and say at the end which networks are too large for a small board."""
    folder = len(chosen.architecture) > 1 or chosen.output.is_dir()
    front_end = find_front_end(chosen.features, chosen.front_end_precision)
    settings, normalisation = front_end.settings, front_end.normalisation
    if chosen.recordings:
        normalisation = Normalisation.measure(features_of(chosen.recordings, settings))
    options = chosen.capacity, chosen.batch, chosen.width, chosen.seed, front_end.statistics
    specifications = [Specification(name, settings, normalisation, *options) for name in chosen.architecture]

    from model_export import cost
    from model_export.bundle import build_bundle

    warnings = []
    for specification in specifications:
        path = chosen.output / f"{specification.architecture}.auricle" if folder else chosen.output
        write_durably(path, build_bundle(specification), 0o644)
        print(path)
        multiply_adds = cost.training_multiply_adds(read_bundle(path).graph, specification.batch)
        if cost.too_large(multiply_adds):
            warnings.append(f"auricle-export: {specification.architecture}: {cost.describe(multiply_adds)}\n")
    terminal.writelines(warnings)


def _measure(chosen: argparse.Namespace, _: TextIO) -> None:
    figures = epoch_and_latency.measure(find_bundle(chosen.bundle), chosen.threads, chosen.samples)
    print(json.dumps(figures) if chosen.json else "\n".join(epoch_and_latency.describe(figures, chosen.threads)))


def _inspect(chosen: argparse.Namespace, _: TextIO) -> None:
    from model_export import cost
    from model_export.graph_operators import operators_by_signature, require_builtin

    path = find_bundle(chosen.file)
    require_regular(path, LARGEST_BYTES)
    if zipfile.is_zipfile(path):
        bundle = read_bundle(path)
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
