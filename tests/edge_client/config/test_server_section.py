"""The section [server] that joining writes and leaving removes; the rest of the owner's file stays as it is."""

import tomllib

import pytest

from edge_client.config.server_section import remove_server, write_server
from edge_client.errors import ConfigError

URL = "https://192.168.1.5:8470"
PLAIN = '# mine\n[device]\nname = "kitchen"  # here\nstate = "state"\n\n[model]\nbundle = "base"\n'
GIVEN = (
    PLAIN + '\n[server] # the old one\nurl = "http://127.0.0.1:1"\nwait_s = 5\n# token\nenrol_token = "t"\n'
    "\n# hear\n[microphone]\n"
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "edge.toml"


def written(path, text, **options):
    path.write_text(text)
    path.chmod(0o640)
    write_server(path, URL, **({"insecure_http": False} | options))
    assert path.stat().st_mode & 0o777 == 0o640
    return path.read_text()


def test_a_file_without_the_section_gets_it_at_its_end(path):
    assert written(path, PLAIN) == PLAIN + f'\n[server]\nurl = "{URL}"\n'


def test_a_section_that_is_there_keeps_its_other_keys(path):
    text = written(path, GIVEN, insecure_http=True)
    assert tomllib.loads(text)["server"] == {"url": URL, "insecure_http": True, "wait_s": 5, "enrol_token": "t"}
    assert text.startswith(PLAIN)
    assert text.endswith("\n\n# hear\n[microphone]\n")
    again = written(path, text)
    assert "insecure_http" not in tomllib.loads(again)["server"]


def test_the_section_becomes_comments_and_can_come_back(path):
    path.write_text(GIVEN)
    remove_server(path)
    left = path.read_text()
    assert tomllib.loads(left) == {key: value for key, value in tomllib.loads(GIVEN).items() if key != "server"}
    assert '#url = "http://127.0.0.1:1"' in left
    assert left.endswith("\n# hear\n[microphone]\n")
    remove_server(path)  # there is none any more
    assert path.read_text() == left
    write_server(path, URL, insecure_http=False)
    assert tomllib.loads(path.read_text())["server"] == {"url": URL}


@pytest.mark.parametrize("text", ['server = {url = "http://127.0.0.1:1"}\n' + PLAIN, 'server.url = "x"\n' + PLAIN])
def test_a_file_that_is_written_in_another_way_is_left_alone(path, text):
    path.write_text(text)
    with pytest.raises(ConfigError, match="change it by hand"):
        write_server(path, URL, insecure_http=False)
    assert path.read_text() == text
