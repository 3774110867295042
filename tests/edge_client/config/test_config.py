"""A configuration is refused by the name of what is wrong with it."""

import socket
import tomllib

import pytest

from edge_client.config import load_config
from edge_client.config.sections import UiConfig
from edge_client.config.written import remove_server, write_server
from edge_client.errors import ConfigError

GOOD = """
[device]
name = "shelf"
state = "state"
[server]
url = "http://127.0.0.1:8470"
wait_s = 5
[model]
bundle = "cnn2.auricle"
[recordings]
folder = "clips"
per_round = [20, 30]
"""


def load(tmp_path, text):
    path = tmp_path / "edge.toml"
    path.write_text(text)
    return load_config(path)


def test_paths_are_relative_to_the_file_and_defaults_are_filled_in(tmp_path, monkeypatch):
    monkeypatch.delenv("AURICLE_ENROL_TOKEN", raising=False)
    config = load(tmp_path, GOOD)
    assert config.device.state == tmp_path / "state"
    assert config.model.bundle == tmp_path / "cnn2.auricle"
    assert config.recordings.per_round == (20, 30)
    assert config.server.wait_s == 5.0
    assert config.server.enrol_token == ""
    assert config.recordings.background is None
    assert config.device.share_names is False  # the owner's words stay on the device, unless he says otherwise
    assert load(tmp_path, GOOD.replace('name = "shelf"', 'name = "shelf"\nshare_names = true')).device.share_names
    monkeypatch.setenv("AURICLE_ENROL_TOKEN", "from-the-environment")
    assert load(tmp_path, GOOD).server.enrol_token == "from-the-environment"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "shelf"', 'nmae = "shelf"', "unknown key 'nmae' in [device]"),
        ("[model]", "[mdoel]", "unknown section [mdoel]"),
        ('bundle = "cnn2.auricle"', "", "[model] needs the key 'bundle', as in bundle = \"words\"; ready: ann3, base"),
        ('bundle = "cnn2.auricle"', 'bundle = "bass"', "line 9: [model] bundle: no ready bundle is called 'bass'"),
        ("[recordings]", "[detector.thresholds]\nstop = 2.0\n[recordings]", "line 11: [detector] stop = 2.0"),
        ("[recordings]", "[training]\nnice = 20\n[recordings]", "line 11: [training] nice = 20"),
        ("[recordings]", "[microphone]\nfile = 'x'\ndevice = 'y'\n[recordings]", "line 11: [microphone] file = "),
        ("[recordings]", "[detector.waits]\nstop = ['stop']\n[recordings]", "cannot wait for itself"),
        ("[recordings]", "[listen]\nhours = ['7-23']\n[recordings]", "11: [listen] hours = ['7-23']: must be like"),
        ("[recordings]", "[listen]\nhours = '07:00-23:00'\n[recordings]", "must be a list"),
        ("[recordings]", "mqtt = 7\n[recordings]", "unknown key 'mqtt' in [model]"),
        ("[device]", "mqtt = 7\n[device]", "[mqtt] must be a section"),
        ("[20, 30]", "[30, 20]", "per_round = [30, 20]"),
        ("http://127.0.0.1:8470", "127.0.0.1:8470", "must start with http"),
        ("127.0.0.1:8470", "127.0.0.1:99999", "is no address (Port out of range 0-65535)"),
        ("127.0.0.1:8470", "127.0.0.1:0", "must name a host, and a port from 1 to 65535"),
        ("127.0.0.1:8470", "127.0.0.1:8470/?a=b", "must be a host and perhaps a path"),
        ("wait_s = 5", "wait_s = 500", "wait_s = 500"),
        ("[server]", "[server", "not valid TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, old, new, message):
    assert old in GOOD
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, GOOD.replace(old, new))
    assert message in str(caught.value)
    assert "edge.toml" in str(caught.value)


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


def test_a_file_without_the_section_gets_it_at_its_end_and_one_that_is_there_keeps_its_other_keys(path):
    assert written(path, PLAIN) == PLAIN + f'\n[server]\nurl = "{URL}"\n'
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


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({}, ""),  # for this machine alone
        ({"host": "::1", "insecure_http": True}, ""),
        ({"host": "0.0.0.0"}, f"https://{socket.gethostname()}.local:8471/"),  # with a certificate of its own
        ({"host": "0.0.0.0", "names": ("shelf.example.org",)}, "https://shelf.example.org:8471/"),
        ({"host": "0.0.0.0", "insecure_http": True}, f"http://{socket.gethostname()}.local:8471/"),
        ({"host": "192.0.2.7", "insecure_http": True, "port": 80}, "http://192.0.2.7:80/"),
        ({"host": "2001:db8::7", "insecure_http": True}, "http://[2001:db8::7]:8471/"),
        ({"host": "shelf", "insecure_http": True}, "http://shelf:8471/"),
        ({"host": "shelf", "insecure_http": True, "port": 0}, ""),  # another one each time
        ({"names": ("shelf.example.org",)}, "https://shelf.example.org/"),
        ({"host": "0.0.0.0", "proxy": "172.30.32.2"}, ""),  # which alone may open it
    ],
)
def test_the_address_of_the_page_is_what_other_machines_can_open(settings, address):
    assert UiConfig(**settings).address == address
