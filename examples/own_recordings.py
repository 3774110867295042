"""Train a classifier on recordings of your own, and see what it confuses.

    python examples/own_recordings.py FOLDER [--bundle words] [--save words.safetensors]

FOLDER holds a folder for each label: FOLDER/doorbell/1.wav. A file's name says who or what made the sound, the part
before the first "_": `anna_1.wav`. Every fourth of them is kept for the test, so that nobody is in both parts.
"""

import argparse
from pathlib import Path

import numpy as np

from edge_client.api import AuricleError, Classifier
from edge_client.audio.recordings import speaker_of
from fleet_protocol.bundle.ready_bundles import FIRST_CHOICE


def main() -> int:
    """Return 0, or 1 where the recordings are of no use."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--bundle", default=FIRST_CHOICE, help="a ready bundle's name, or a file (default: %(default)s)"
    )
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep what was learned")
    options = parser.parse_args()
    try:
        classifier = Classifier(options.bundle)
        (train, train_labels), (test, test_labels) = split(options.folder)
        classifier.fit(train, train_labels)
        report(classifier, test, test_labels)
        if options.save:
            classifier.save(options.save)
    except (AuricleError, OSError) as error:
        print(error)
        return 1
    return 0


def split(folder: Path) -> list[tuple[list[Path], list[str]]]:
    """Return paths and labels to learn from, and others for the test."""
    paths = sorted(path for path in folder.glob("[!_.]*/*") if path.suffix.lower() in (".wav", ".flac", ".ogg"))
    kept = sorted({speaker_of(path) for path in paths})[::4]
    parts = [[path for path in paths if (speaker_of(path) in kept) == test] for test in (False, True)]
    return [(part, [path.parent.name for path in part]) for part in parts]


def report(classifier: Classifier, test: list[Path], labels: list[str]) -> None:
    """Print the accuracy, and for each label what its clips were taken for."""
    found, wanted = np.array(classifier.predict(test)), np.array(labels)
    print(f"{len(test)} clips, of {100 * (found == wanted).mean():.1f} % the label was found")
    for label in classifier.labels:
        taken_for, counts = np.unique(found[wanted == label], return_counts=True)
        pairs = sorted(zip(counts.tolist(), taken_for.tolist(), strict=True), reverse=True)
        print(f"{label:>16}: " + ", ".join(f"{name} {count}" for count, name in pairs))


if __name__ == "__main__":
    raise SystemExit(main())
