"""Writes the dashboard's catalogues anew, from templates and code: ``python -m tests.support.dashboard_texts``.

A ``.po`` file is the source: what it translates stays, new texts are added to it without a translation, and others are
removed. The ``.mo`` file beside it is what the server reads.
"""

import sys
from collections.abc import Iterator
from typing import get_args

from babel.messages import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from aggregator_server.fleet.audit import What
from aggregator_server.schemas import Role
from aggregator_server.selection.draw import selections
from aggregator_server.strategies.registry import known_settings, personalisations, strategies
from aggregator_server.web.dashboard.languages import DOMAIN, ENGLISH, LANGUAGES, LOCALE
from tests.support.checkout import ROOT

DASHBOARD = ROOT / "aggregator_server/web/dashboard"
METHODS = [("templates/**.html", "jinja2"), ("**.py", "python")]
_BLOCKS = dict.fromkeys(("trimmed", "newstyle_gettext", "trim_blocks", "lstrip_blocks"), "true")
OPTIONS = {"templates/**.html": _BLOCKS | {"silent": "false"}}
KEYWORDS = {"_": None, "gettext": None, "N_": None, "ngettext": (1, 2)}
OPERATIONS = ("approve", "merge", "split", "retire", "restore")
REASONS = ("cancelled by an administrator",)
LONGEST_LINE = 116


def translated() -> list[str]:
    """The languages that have a catalogue."""
    return [code for code in LANGUAGES if code != ENGLISH.code]


def po_file(code: str):
    return LOCALE / code / "LC_MESSAGES" / f"{DOMAIN}.po"


def of_other_packages() -> Iterator[str]:
    """The texts that the pages take from elsewhere: what methods and settings say of themselves, names of states."""
    for strategy in strategies().values():
        yield from (strategy.about, strategy.cost)
    for method in (*selections().values(), *personalisations().values()):
        yield method.about
    for settings in known_settings("local").values():
        yield from (setting.about for setting in settings.values())
    yield from (what.replace("_", " ") for what in get_args(What))
    yield from get_args(Role)
    yield from (*OPERATIONS, *REASONS)


def template() -> Catalog:
    """Every text of the dashboard, without translations."""
    found = Catalog(domain=DOMAIN, project="Auricle", charset="utf-8")
    for name, _line, message, comments, _context in extract_from_dir(DASHBOARD, METHODS, OPTIONS, KEYWORDS):
        found.add(message, locations=[(name, 0)], auto_comments=comments)
    for text in of_other_packages():
        if text:
            found.add(text)
    return found


def read(code: str) -> Catalog:
    with po_file(code).open("rb") as file:
        return read_po(file, locale=code, domain=DOMAIN)


def write(code: str, texts: Catalog) -> int:
    """Write both files of a language.

    Returns:
        Number of texts that nobody has translated yet.
    """
    path = po_file(code)
    path.parent.mkdir(parents=True, exist_ok=True)
    known = read(code) if path.is_file() else Catalog(locale=code, domain=DOMAIN, charset="utf-8")
    known.update(texts, no_fuzzy_matching=True, update_creation_date=False)
    known.obsolete.clear()
    known.header_comment = f"# Texts of Auricle's dashboard, {LANGUAGES[code].name}. Licence: Apache-2.0."
    known.project, known.version, known.fuzzy = "Auricle", "1", False
    known.last_translator, known.msgid_bugs_address, known.language_team = "-", "-", LANGUAGES[code].name
    known.revision_date = known.creation_date
    with path.open("wb") as file:
        write_po(file, known, width=LONGEST_LINE, sort_output=True, include_lineno=False)
    with path.with_suffix(".mo").open("wb") as file:
        write_mo(file, known)
    return sum(not all(forms(message.string)) for message in known if message.id)


def forms(text: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """The singular and the plurals of a text; the text alone where it has none."""
    return tuple(text) if isinstance(text, list | tuple) else (text or "",)


def main() -> None:
    texts = template()
    missing = {code: write(code, texts) for code in translated()}
    for code, count in missing.items():
        print(f"{po_file(code).relative_to(ROOT)}: {len(texts)} texts, {count} not translated")
    sys.exit(any(missing.values()))


if __name__ == "__main__":
    main()
