"""Pages of studies: what a person wrote beside what was measured, and that neither is out of date."""

import re
from dataclasses import asdict

import pytest

from studies.fleets import StudyError
from studies.render import DOCS, file_of, page, path_of, shown, stale, write
from studies.study import NAMES, Picture, Series, Summary, Table, dumped, measured, stored

RESULTS = {
    "tables": {"gain": {"title": "Gain", "columns": ["", "x"], "rows": [["a", {"mean": -2.71, "deviation": None}]]}},
    "pictures": {},
}


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_of_the_prose_was_measured_or_published(name):
    assert stale(path_of(name).read_text(), stored(name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_tracked_page_has_the_tables_and_pictures_of_the_results(name):
    assert path_of(name).read_text() == page(name)


@pytest.mark.parametrize("name", NAMES)
def test_tables_are_whole_and_every_cell_can_be_read(name):
    results = stored(name)
    for table in results["tables"].values():
        assert {len(row) for row in table["rows"]} == {len(table["columns"])}
        assert all(len(shown(cell)) <= 200 for row in table["rows"] for cell in row)
    used = re.findall(r"<!-- (\w+) ([\w-]+) -->", path_of(name).read_text())
    assert {key for kind, key in used if kind == "picture"} == set(results["pictures"])
    assert all((DOCS / "images" / file_of(name, key)).is_file() for key in results["pictures"])


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("It loses 2.7 points, or -2.7; 3 points is near, and so is 2.71.", []),
        ("A gain of +2.7 points and 4 %, of 20 devices in 2025.", ["+2.7", "4 %"]),
        ("## 9.9\n`9.9` and [a link](https://a.b/9.9)", []),
        ("84.6 ± 0.2", ["84.6", "0.2"]),
    ],
)
def test_a_figure_is_found_by_its_unit_or_its_point(text, missing):
    assert [found.split(" points")[0] for found in stale(text, RESULTS)] == missing


def test_a_cell_of_several_seeds_shows_its_spread():
    assert shown(measured({1: 10.0, 2: 20.0})) == "15.0 ± 7.1"
    assert shown(measured({1: 10.0})) == "10.0"
    assert measured({1: 10.0, 2: None}) is None
    assert [shown(cell) for cell in (None, "text", 1234, 0.04)] == ["", "text", "1,234", "0.04"]


def tiny_home(folder, text):
    lines = [Series("a", [1, 2], [3.0, 4.0], [0.1, 0.2], "left"), Series("b", [1, 2], [1.0, 2.0], panel="right")]
    summary = Summary(
        {"one": Table("Of one", ["", "x, %"], [["a | b", measured({1: 1.0, 2: 2.0})]])},
        {
            "curve": Picture("lines", "A curve.", "round", "accuracy, %", lines),
            "bars": Picture("bars", "Bars.", "", "accuracy, %", [Series("a", ["p", "q"], [1.0, 2.0], [0.5, 0.5])]),
            "marks": Picture("points", "Marks.", "clips", "error, %", [Series("a", [3, 1, 2], [1.0, 2.0, 3.0])]),
        },
    )
    results = {"scale": "small", **asdict(summary)}
    results["measured"] = {"date": "2026-01-02", "code": "abc", "machine": "M", "runs": 3, "minutes": 0.5, "seeds": [1]}
    (folder / "tiny").mkdir()
    (folder / "tiny" / "results.json").write_text(dumped(results))
    (folder / "docs" / "studies").mkdir(parents=True)
    (folder / "docs" / "studies" / "tiny.md").write_text(text)


def test_a_page_holds_the_tables_and_pictures_that_the_text_asks_for(tmp_path):
    blocks = (f"<!-- {what} -->\nold\n<!-- end -->" for what in ("table one", "picture curve", "about"))
    tiny_home(tmp_path, "# Tiny\nProse.\n\n" + "\n\n".join(blocks))
    docs = tmp_path / "docs"
    write("tiny", tmp_path, docs)
    text = (docs / "studies" / "tiny.md").read_text()
    assert (
        "# Tiny\nProse.\n\n<!-- table one -->\nOf one\n\n|  | x, % |\n| --- | ---: |\n| a \\| b | 1.5 ± 0.7 |\n" in text
    )
    assert "![A curve.](../images/results-tiny-curve.svg)" in text
    about = "3 runs, 0.5 minutes of one process, 2026-01-02, scale small, seeds 1, code `abc`."
    assert f"\n{about}\nMachine: M.\n" in text
    drawn = {path.name: path.read_bytes() for path in (docs / "images").iterdir()}
    assert set(drawn) == {f"results-tiny-{key}.svg" for key in ("curve", "bars", "marks")}
    write("tiny", tmp_path, docs)
    assert drawn == {path.name: path.read_bytes() for path in (docs / "images").iterdir()}


def test_a_text_that_asks_for_what_is_not_there_is_named(tmp_path):
    tiny_home(tmp_path, "<!-- table two -->\n<!-- end -->\n")
    with pytest.raises(StudyError, match=r"docs/studies/tiny\.md asks for a table two"):
        page("tiny", tmp_path, tmp_path / "docs")


def sections():
    """The parts of docs/results.md, each with the study that it links."""
    parts = re.split(r"(?m)^(?=## )", (DOCS / "results.md").read_text())[1:]
    return {match.group(1): part for part in parts if (match := re.search(r"\(studies/(\w+)\.md\)", part))}


def test_the_short_page_has_a_part_of_every_study_with_its_picture_and_at_most_ten_rows():
    text = (DOCS / "results.md").read_text()
    assert len(text.split()) <= 3500
    assert list(sections()) == list(NAMES)
    for name, part in sections().items():
        rows = [line for line in part.splitlines() if line.startswith("|")]
        assert 3 <= len(rows) <= 12
        assert all(len(cell) <= 200 for row in rows for cell in row.split("|"))
        (picture,) = re.findall(r"!\[[^]]+\]\(images/([\w-]+\.svg)\)", part)
        assert picture in {file_of(name, key) for key in stored(name)["pictures"]}


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_of_the_short_page_is_in_the_study_that_it_links(name):
    assert stale(sections()[name], stored(name)) == []
