"""Words of languages that a front end never heard, spoken by espeak-ng's voices, for its few-shot report.

`python -m benchmarks.languages FOLDER` writes ``FOLDER/<language>/<word>/<speaker>_nohash_<take>.wav``; each language's
folder is one for `auricle-export pretrain --few-shot`. The same options give the same files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.command import BenchmarkError, Command
from demo.corpus import synthesise

# Words of the household, without letters that a file system might spell in two ways.
WORDS = {
    "de": ("licht", "fenster", "heizung", "musik", "lauter", "leiser", "anfang", "halt", "wecker", "katze"),
    "es": ("luz", "ventana", "puerta", "subir", "bajar", "silencio", "ayuda", "perro", "cocina", "encender"),
    "fr": ("bonjour", "lumiere", "porte", "monter", "descendre", "musique", "arrete", "maison", "voiture", "chien"),
    "it": ("luce", "finestra", "porta", "musica", "aiuto", "basta", "cucina", "gatto", "avanti", "indietro"),
    "pl": ("drzwi", "okno", "muzyka", "pomoc", "kuchnia", "start", "kot", "wyzej", "zegar", "dom"),
    "tr": ("kapi", "pencere", "dur", "evet", "yardim", "kedi", "anne", "mutfak", "sessiz", "devam"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Synthesise the languages; return the exit status."""
    parser = Command("benchmarks.languages", __doc__)
    parser.add_argument("folder", type=Path, help="folder that gets a folder for each language")
    parser.add_argument("--languages", default=",".join(WORDS), help="of %(default)s")
    parser.add_argument("--speakers", type=int, default=24, help="of each language (default: %(default)s)")
    parser.add_argument("--takes", type=int, default=11, help="of each word by each speaker (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of voices and noises (default: %(default)s)")
    return parser.run(work, arguments)


def work(chosen: argparse.Namespace) -> None:
    """Synthesise the languages, and print the folder of each."""
    for language in chosen.languages.split(","):
        if language not in WORDS:
            raise BenchmarkError(f"no words are known for language {language!r}; known: {', '.join(WORDS)}")
        folder = chosen.folder / language
        synthesise(folder, WORDS[language], chosen.speakers, chosen.takes, chosen.seed, (language,))
        print(folder)


if __name__ == "__main__":
    sys.exit(main())
