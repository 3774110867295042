"""docs/privacy.md against the files of a device that asks: every file, field and array, and how long a sound stays."""

import re
import time

import numpy as np

from edge_client.detection.doubts import Doubt
from edge_client.owner import Teaching
from edge_client.questions.answers import answer, store_of
from edge_client.questions.asking import Asker
from edge_client.questions.store import Book, Candidate, Question, QuestionStore
from edge_client.storage.ages import DAY_S
from fleet_protocol.bundle.bundle_file import read_bundle
from tests.support.asked_device import ask, sound, taught
from tests.support.checkout import ROOT


def rows():
    section = (ROOT / "docs" / "privacy.md").read_text().split("\n## Questions\n")[1].split("\n## ")[0]
    return {cells[1].strip(" `"): cells for line in section.splitlines() if len(cells := line.split("|")) == 5}


def asker_of(device, clock=time.time, per_day=3):
    manifest = read_bundle(device.bundle).manifest
    store = QuestionStore(device.state, manifest.feature_settings.digest)
    return Asker(store, device.state, manifest.embedding_statistics, per_day, 16_000, clock)


def doubt(seed, label="kettle"):
    rng = np.random.default_rng(seed)
    embedding = rng.normal(size=64).astype(np.float32)
    return Doubt(time.time(), label, False, 0.8, 0.1, sound("up", seed), embedding)


def test_the_table_names_every_file_and_field_and_the_sound_goes_with_the_answer(tmp_path):
    device, state = taught(tmp_path), None
    state = device.state
    before = {path.name for path in state.folder.iterdir()}
    asker = asker_of(device)
    asker.consider(doubt(1))
    files = {path.name + "/" * path.is_dir() for path in state.folder.iterdir() if path.name not in before}
    named = set(rows()) - {"file in the state folder", "---"}
    assert named == {"questions/", "state.sqlite3`: `questions", "state.sqlite3`: `candidates"}
    assert files == {"questions/", "state.sqlite3"}
    for table in ("questions", "candidates"):
        columns = {name for (name,) in state.database.rows(f"SELECT name FROM pragma_table_info('{table}')")}
        assert columns - {"id"} == set(re.findall(r"`(\w+)`", rows()[f"state.sqlite3`: `{table}"][2]))
    (question,) = asker.store.read().questions
    (path,) = state.questions_folder.iterdir()
    assert len(path.read_bytes()) == 44 + 2 * 16_000  # as long as a clip
    pcm = path.read_bytes()[44:]
    database = state.database.path
    kept = database.read_bytes()
    assert not any(pcm[at : at + 8] in kept for at in range(0, len(pcm) - 8, 4_000))
    for file in (database, path, state.questions_folder):
        assert file.stat().st_mode & 0o077 == 0
    teaching = Teaching.open(tmp_path / "edge.toml")
    answer(teaching, question.question_id, "no")
    assert list(state.questions_folder.iterdir()) == []
    assert asker.store.read().questions[0].said == "no"


def test_no_more_sounds_are_kept_than_are_asked_about_and_none_for_longer_than_a_day(tmp_path):
    device, now = taught(tmp_path), [time.time()]
    asker = asker_of(device, lambda: now[0])
    for number in range(40):
        asker.consider(doubt(number))
    assert len(list(device.state.questions_folder.iterdir())) == 3
    assert len(asker.changed(["kettle", "bell"])) == 3
    assert asker.changed(["kettle", "bell"]) is None  # nothing is new
    now[0] += DAY_S + 1
    asker.consider(doubt(50))  # anything writes the file
    assert len(asker.changed(["kettle"])) <= 1
    assert len(list(device.state.questions_folder.iterdir())) <= 1


def test_the_rows_stay_within_the_bounds_of_the_table(tmp_path):
    device = taught(tmp_path)
    store, row = asker_of(device).store, np.full(448, 1.5, np.float32)
    for number in range(220):
        store.add(
            Question(f"{number:016x}", 1.0, "l" * 100, True, 0.5, row, "no", 2.0, number, "_not_/" + "l" * 100), b""
        )
    for at in range(1100):
        store.add_candidate(Candidate(float(at), 0.1, detected=True))
    store.add_candidate(Candidate(float(at), 0.1, detected=True))
    book = store.read()
    assert (len(book.questions), len(book.candidates)) == (100, 1000)
    assert book.questions[0].question_id == f"{120:016x}"
    assert "the newest 100" in rows()["state.sqlite3`: `questions"][3]
    assert device.state.database.path.stat().st_size < 500_000


def test_switched_off_it_removes_what_it_has(tmp_path):
    device = taught(tmp_path, learning="questions = 0")
    ask(tmp_path / "edge.toml")
    manifest = read_bundle(device.bundle).manifest
    assert Asker.open(device.config, device.state, manifest) is None
    assert store_of(Teaching.open(tmp_path / "edge.toml")).read() == Book()
    assert list(device.state.questions_folder.iterdir()) == []


def test_a_damaged_question_is_left_out_and_its_sound_goes(tmp_path):
    device = taught(tmp_path)
    ask(tmp_path / "edge.toml")
    with device.state.database.changing() as connection:
        connection.execute("UPDATE questions SET embedding = x'007c'")  # infinite
    store = store_of(Teaching.open(tmp_path / "edge.toml"))
    store.tidy()
    assert (store.read(), list(store.folder.iterdir())) == (Book(), [])
