"""`python -m benchmarks.listening`: teach a device some words, and let it listen to streams of them and of others.

Words that it was not taught with, by speakers that it never heard, lie among other words in backgrounds that it never
heard, at 20, 10 and 5 dB. Defaults were chosen on one half of these speakers and backgrounds (`--tuning`); figures are
of the other. Backgrounds: Speech Commands' noise recordings, and sounds of UrbanSound8K that go on and on. `--words`
has owners teach words of their own, which the network never heard, and say them among other words of the same folder.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import Command, data_folder, said
from benchmarks.listening.choosing import Search, device_of, written
from benchmarks.listening.front_ends import FrontEnd, front_ends, taught_device
from benchmarks.listening.material import KNOWN, Half, Material, Stream, load_material, make_stream
from benchmarks.listening.measurement import figures, in_parts, listen
from benchmarks.listening.own_words import measure as measure_own
from benchmarks.listening.own_words import owners
from benchmarks.listening.phrases import join
from benchmarks.listening.speech import speech_in_noise
from edge_client.daemon.listening_loop import load_listening
from edge_client.detection.scores import SHIPPED_TABLE, read_table
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.numbers.arrays import Floats

SNRS_DB = (20.0, 10.0, 5.0)


def _streams_of(half: Half, minutes: float, seed: int) -> dict[float, Stream]:
    """Return a stream for every ratio."""
    return {
        snr_db: make_stream(half, snr_db, minutes, np.random.default_rng([seed, int(snr_db)])) for snr_db in SNRS_DB
    }


def measure(
    front_end: FrontEnd, material: Material, streams: dict[float, Stream], *, untaught: bool = False
) -> dict[str, Any]:
    """Teach a device on this front end, unless the labels are built-in; print and return its figures."""
    with tempfile.TemporaryDirectory() as folder:
        takes = {label: [clip.path for clip in material.training if clip.label == label] for label in KNOWN}
        known = {label: label for label in KNOWN if untaught}
        config = taught_device(Path(folder), front_end.bundle, {} if untaught else takes, material.noise, known)
        loaded = load_listening(config)
    ratios, spent, seconds = [], 0.0, 0.0
    for snr_db, stream in streams.items():
        heard = listen(loaded, in_parts(stream.samples), config.detector)
        ratios.append(figures(snr_db, heard, stream, loaded.tails))
        said({"detector": front_end.name} | ratios[-1])
        for point in (ratios[-1]["false_reject_percent_at"], *ratios[-1]["promised"]):
            said(point)
        spent, seconds = spent + heard.spent_s, seconds + heard.seconds
    row = {"front_end": front_end.name, "clips_per_label": 0 if untaught else len(material.training) // len(KNOWN)}
    return said(row | {"real_time_factor": round(spent / seconds, 5), "snr": ratios})


def main() -> int:
    """Run the benchmark."""
    parser = Command("benchmarks.listening", __doc__)
    about = "pretrained ones, or files NAME.frontend (words base)"
    parser.add_argument("--front-ends", nargs="+", default=["words", "base"], metavar="NAME", help=about)
    parser.add_argument("--bundles", type=Path, metavar="DIR", help="take NAME.auricle from here, build none")
    parser.add_argument("--untaught", action="store_true", help="words of the pretraining, built-in alone")
    parser.add_argument("--words", type=Path, metavar="DIR", help="teach own words, of <word>/<speaker>_*, instead")
    about = "with --words: phrases of two of them by one speaker instead, as `start,stop left,right`"
    parser.add_argument("--join", nargs=2, type=lambda words: words.split(","), metavar="WORDS", help=about)
    parser.add_argument("--owners", type=int, default=6, help="with --words: devices (6)")
    parser.add_argument("--takes", type=int, default=5, help="with --words: of each word by each teacher (5)")
    parser.add_argument("--teachers", type=int, default=1, help="with --words: people who teach a device (1)")
    parser.add_argument("--rooms", action="store_true", help="with --words: they are heard through rooms")
    about = "with --words: false alarms of each label that the owner has said are not it, before (0)"
    parser.add_argument("--rejected", type=int, default=0, help=about)
    about = "with --words: recordings of connected speech, in which false alarms count besides"
    parser.add_argument("--talk", type=Path, metavar="DIR", help=about)
    parser.add_argument("--hours", type=float, default=10.0, help="of talk (10)")
    about = "try other tables of scores on recordings in rooms, of <word>/<speaker>_* in each folder"
    parser.add_argument("--choose", nargs="+", type=Path, metavar="DIR", help=about)
    parser.add_argument("--table", type=Path, metavar="FILE", help="with --choose: begin with this one")
    parser.add_argument(
        "--into", type=Path, metavar="FILE", help="with --choose: write the best table, with its figures"
    )
    parser.add_argument(
        "--trials", type=int, default=40, help="with --choose: tables at most, 1 of the first alone (40)"
    )
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--minutes", type=float, default=60.0, help="longest stream (60; words end it before)")
    parser.add_argument("--tuning", action="store_true", help="listen to the half on which defaults were chosen")
    parser.add_argument("--seed", type=int, default=0)
    return parser.run(work)


def work(options: argparse.Namespace) -> dict[str, object]:
    """Let every front end listen, print its lines, and return the figures."""
    with tempfile.TemporaryDirectory() as folder:
        chosen = front_ends(options.front_ends, Path(folder), options.bundles)
        material = load_material(options.data, options.seed)
        half = material.tuning if options.tuning else material.report
        if options.choose is not None:
            (one,) = chosen[:1]
            return _chosen_table(one, options, material.noise, half.backgrounds)
        if options.words is not None:
            words = options.words
            if options.join is not None:
                words = Path(folder) / "phrases"
                join(options.words, options.join, words)
            people = owners(words, options.owners, options.takes, options.teachers, options.seed)
            by = {
                "takes": options.takes,
                "teachers": options.teachers,
                "rooms": options.rooms,
                "rejected": options.rejected,
            }
            heard = (material.noise, half.backgrounds, SNRS_DB, options.seed)
            talk = None
            if options.talk is not None:
                by |= {"talk_hours": options.hours}

                def talk(snr_db: float) -> Iterator[Floats]:
                    return speech_in_noise(options.talk, half, snr_db, options.hours, options.seed)

            more = {"in_rooms": options.rooms, "talk": talk, "rejected": options.rejected}
            rows = ((one.name, measure_own(one, people, *heard, **more)) for one in chosen)
            return {"front_ends": [{"front_end": name, **by, "snr": snr} for name, snr in rows]}
        streams = _streams_of(half, options.minutes, options.seed)
        results = [measure(one, material, streams, untaught=options.untaught) for one in chosen]
    return {"front_ends": results}


def _chosen_table(
    front_end: FrontEnd, options: argparse.Namespace, noise: Sequence[Floats], backgrounds: Sequence[Floats]
) -> dict[str, object]:
    """Search for a table of scores on the first front end, write it, and return the trials."""
    path = options.table or SHIPPED_TABLE
    start = read_table(path)
    sets = {}
    for folder in options.choose:
        people = owners(folder, options.owners, options.takes, 1, options.seed)
        heard = (noise, backgrounds, SNRS_DB, options.seed)
        sets[folder.name] = [device_of(front_end.bundle, one, number, *heard) for number, one in enumerate(people)]
        said({"heard": folder.name, "owners": len(people)})
    statistics = read_bundle(front_end.bundle).manifest.embedding_statistics
    kind = "word" if statistics is not None and statistics.known.words else "other_word"
    search = Search(start, kind, sets, options.trials)
    if options.into is not None:
        options.into.write_text(written(path.read_text(), search, kind))
    return {"front_end": front_end.name, "table": asdict(search.table), "trials": search.trials}


if __name__ == "__main__":
    sys.exit(main())
