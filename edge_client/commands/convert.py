"""``public-set``: make a fleet's public set of recordings; it needs no configuration."""

from __future__ import annotations

import argparse
from pathlib import Path

from edge_client.commands import Commands, report, set_command
from fleet_protocol.feature_settings import PRESETS


def add(commands: Commands) -> None:
    """Add the commands."""
    public = commands.add_parser("public-set", help="compute a fleet's public set from a folder of recordings")
    public.add_argument("folder", type=Path, help="clips as LABEL/*.wav|flac|ogg|opus|mp3")
    features = public.add_mutually_exclusive_group()
    features.add_argument("--features", choices=sorted(PRESETS), default="gudur", help="a preset (gudur)")
    features.add_argument("--bundle", metavar="NAME|FILE", help="the features of this bundle instead")
    public.add_argument(
        "--per-label",
        type=_count,
        default=300,
        metavar="N",
        help="clips of each label (300); auto: as many as the rarest label has, at most 100",
    )
    public.add_argument("--labels", metavar="A,B", help="only these labels (all)")
    public.add_argument("--seed", type=int, default=0, help="of the choice of clips (0)")
    public.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    set_command(public, _public_set, config=False)


def _count(text: str) -> int | None:
    return None if text == "auto" else int(text)


def _public_set(options: argparse.Namespace) -> int:
    from edge_client.clips.public_set import build_public_set
    from edge_client.commands.waiting import progress
    from fleet_protocol.atomic_files import write_durably
    from fleet_protocol.bundle import read_bundle
    from fleet_protocol.ready_bundles import find_bundle

    settings = PRESETS[options.features]
    if options.bundle is not None:
        settings = read_bundle(find_bundle(options.bundle)).manifest.feature_settings
    labels = options.labels.split(",") if options.labels else None
    with progress("computing features") as advance:
        public_set = build_public_set(
            options.folder, settings, labels=labels, per_label=options.per_label, seed=options.seed, advance=advance
        )
    write_durably(options.output, public_set.pack(), mode=0o644)
    count, classes = len(public_set.labels), public_set.class_ids
    document = {"file": str(options.output), "clips": count, "classes": classes}
    return report(document, [f"{options.output}: {count} clips of {', '.join(classes)}"], json=options.json)
