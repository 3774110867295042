"""The documents are true to the checkout: pages, headings and modules that they name exist, and lines stay short."""

import re
from pathlib import Path

import pytest

from tests.support.checkout import ROOT

PACKAGES = ("aggregator_server", "edge_client", "fleet_protocol", "fleet_simulator", "model_export")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LONGEST = 120
# Pages of formulas, figures, and of what crosses the wire; all others keep to short sentences.
DENSE = {"methods", "pretraining", "privacy", "private-rounds", "protocol", "results", "security", "CHANGELOG"}
READ_FIRST = [path for path in DOCUMENTS if path.stem not in DENSE and path.parent.name not in ("models", "studies")]
MOST_WORDS = 30  # of a sentence there

FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
PAGE = re.compile(r"\bdocs/([\w-]+\.md)\b")
LINK = re.compile(r"\]\(([^)\s:]*)\)")
CITED = re.compile(r'\bdocs/([\w-]+\.md),\s+(?:#\s*)?"([^"]+)"')
FILE = re.compile(r"`((?:[\w.-]+/)+[\w-]+\.\w+)(?::\w+)?`")
OTHER_FORM = re.compile(r"auricle\[[\w,]+\](?! @ file:)")
ABBREVIATED = {"A/": "aggregator_server/", "E/": "edge_client/"}  # in the walks of docs/architecture.md
NO_PROSE = re.compile(r"<!--.*?-->|^(?:\||#|    )[^\n]*", re.MULTILINE | re.DOTALL)
PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )")
SENTENCE = re.compile(r"(?<=[.!?;])\s+(?=[A-Z`*\"'(\[])|(?<=:)\s+")
ONLY_LINKS = re.compile(r"^(?:[-*·>\s]|!?\[[^\]]*\]\([^)]*\)|\[!\[[^\]]*\]\([^)]*\)\]\([^)]*\))+$")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def sources() -> list[Path]:
    """Every file that may cite a document: code, build files, service files and the documents."""
    code = [path for folder in (*PACKAGES, "benchmarks", "studies", "tests") for path in (ROOT / folder).rglob("*.py")]
    build = [ROOT / "Makefile", ROOT / "pyproject.toml", *(path for path in (ROOT / "systemd").iterdir())]
    own = Path(__file__).resolve()
    return sorted(path for path in {*code, *build, *DOCUMENTS} if path.is_file() and path.resolve() != own)


def headings(document: Path) -> list[str]:
    return [title.replace("`", "") for title in HEADING.findall(FENCE.sub("", document.read_text()))]


def missing(document: Path, fragment: str) -> bool:
    """Whether no heading is found under a fragment when the page is shown."""
    return fragment not in {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings(document)}


def test_every_page_that_is_named_exists():
    absent = {
        f"{name_of(path)}: docs/{page}"
        for path in sources()
        for page in PAGE.findall(path.read_text())
        if not (ROOT / "docs" / page).is_file()
    }
    assert absent == set()


def test_every_link_between_documents_leads_to_a_file_and_to_a_heading_of_it():
    broken = []
    for document in DOCUMENTS:
        for target in LINK.findall(FENCE.sub("", document.read_text())):
            name, _, fragment = target.partition("#")
            aim = (document.parent / name).resolve() if name else document
            if not aim.exists() or (fragment and missing(aim, fragment)):
                broken.append(f"{name_of(document)}: {target}")
    assert broken == []


def test_every_heading_that_is_cited_stands_on_its_page():
    absent = []
    for path in sources():
        for page, title in CITED.findall(path.read_text()):
            document, wanted = ROOT / "docs" / page, re.sub(r"\s+(?:# )?", " ", title)
            if not document.is_file() or wanted not in headings(document):
                absent.append(f'{name_of(path)}: docs/{page}, "{wanted}"')
    assert absent == []


def test_every_source_file_that_a_document_names_exists():
    absent = []
    for document in DOCUMENTS:
        for name in FILE.findall(FENCE.sub("", document.read_text())):
            if not name.endswith((".py", ".sh", ".toml", ".service")):
                continue
            whole = next((full + name[2:] for short, full in ABBREVIATED.items() if name.startswith(short)), name)
            if not any((ROOT / folder / whole).is_file() for folder in ("", *PACKAGES)):
                absent.append(f"{name_of(document)}: {name}")
    assert absent == []


def test_every_benchmark_that_a_document_names_exists():
    named = {
        (name_of(document), name)
        for document in DOCUMENTS
        for name in re.findall(r"\bbenchmarks\.(\w+)", document.read_text())
    }
    folder = ROOT / "benchmarks"
    absent = [
        f"{page}: benchmarks.{name}"
        for page, name in sorted(named)
        if name != "NAME" and not ((folder / f"{name}.py").is_file() or (folder / name).is_dir())
    ]
    assert absent == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_lines_are_short_enough_to_read(document):
    text = FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), document.read_text())
    long = [
        f"{name_of(document)}:{number}: {len(line)}"
        for number, line in enumerate(text.splitlines(), start=1)
        if len(line) > LONGEST and not line.lstrip().startswith("|") and not ONLY_LINKS.match(line)
    ]
    assert long == []


@pytest.mark.parametrize("page", READ_FIRST, ids=name_of)
def test_sentences_are_short_enough_for_a_reader_in_a_hurry(page):
    prose = NO_PROSE.sub("", FENCE.sub("\n\n", page.read_text()))
    prose = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", prose)
    sentences = [one for part in PARAGRAPH.split(prose) for one in SENTENCE.split(" ".join(part.split()))]
    assert [one for one in sentences if len(one.split()) > MOST_WORDS] == []
    assert len(sentences) > 5


@pytest.mark.parametrize("package", PACKAGES)
def test_the_page_on_architecture_lists_every_folder(package):
    there = {f"{name_of(path.parent)}/" for path in (ROOT / package).rglob("*.py")}
    rows = re.findall(r"^\| `([\w/]+/)` \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    assert sorted(row for row in rows if row.startswith(f"{package}/")) == sorted(there)


def test_every_page_installs_in_one_form():
    """From a checkout, `'.[edge]'`, or a wheel that is named: no registry has the name, so it would be a stranger's."""
    others = {name_of(path): found for path in DOCUMENTS if (found := OTHER_FORM.findall(path.read_text()))}
    assert others == {}
