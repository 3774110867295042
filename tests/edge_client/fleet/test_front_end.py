"""Whether a device follows its fleet to another front end, and what the header that asks for it can say."""

import pytest

from edge_client.config import load_config
from edge_client.errors import CannotFollowError
from edge_client.fleet.front_end import bundle_to_follow
from edge_client.storage.followed_bundle import FILE, follow_bundle, has_followed
from fleet_protocol.bundle import read_bundle
from fleet_protocol.messages import WantedFrontEnd
from fleet_protocol.ready_bundles import find_bundle

FILE_TEXT = """
[device]
name = "kitchen"
state = "state"
[model]
bundle = "{bundle}"
[server]
url = "http://127.0.0.1:8470"
{server}
[microphone]
"""


def wanted(name):
    return WantedFrontEnd(name, read_bundle(find_bundle(name)).manifest.feature_settings.digest)


@pytest.fixture
def configured(tmp_path):
    def write(bundle="base", server=""):
        path = tmp_path / "edge.toml"
        path.write_text(FILE_TEXT.format(bundle=bundle, server=server))
        return load_config(path)

    return write


def test_the_ready_bundle_of_that_name_is_followed_and_the_configured_one_where_it_has_the_front_end(configured):
    assert bundle_to_follow(configured(), wanted("sounds")) == "sounds"
    assert bundle_to_follow(configured("sounds"), wanted("sounds")) == ""


def test_a_device_says_why_it_stays(configured, tmp_path):
    memory = tmp_path / "meminfo"
    memory.write_text("MemTotal: 900000 kB\nMemAvailable: 20480 kB\n")
    for config, asked, reason in (
        (configured(server="follow_front_end = false"), wanted("sounds"), "its owner keeps its front end"),
        (configured(), WantedFrontEnd("sounds_9s", "0" * 16), "no bundle sounds_9s; update"),
        (configured(), WantedFrontEnd("sounds", "0" * 16), "another front end under sounds; update"),
        (configured(), wanted("sounds"), "20 MB of its memory are free"),
    ):
        with pytest.raises(CannotFollowError, match=reason) as error:
            bundle_to_follow(config, asked, memory)
        assert len(str(error.value)) < 150  # the server takes 200 characters
    with pytest.raises(CannotFollowError, match="too slow for sounds"):
        bundle_to_follow(configured(), wanted("sounds"), largest_share=1e-6)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "sounds",
        "../../etc/passwd 0123456789abcdef",
        "sounds 0123",
        "sounds 0123456789abcdeg",
        "a" * 65 + " " + "0" * 16,
    ],
)
def test_a_header_that_is_none_asks_for_nothing(value):
    assert WantedFrontEnd.from_header(value) is None


def test_a_header_comes_back():
    assert WantedFrontEnd.from_header(wanted("sounds").to_header()) == wanted("sounds")


def test_what_a_device_followed_holds_until_its_owner_names_another_bundle_or_does_not_want_it(configured, tmp_path):
    state, base = tmp_path / "state", find_bundle("base")
    config = configured()
    assert config.bundle == base
    state.mkdir()
    follow_bundle(state, base, "sounds")
    assert config.bundle == find_bundle("sounds")  # at once, in every process
    assert configured("words").bundle == find_bundle("words")
    assert configured(server="follow_front_end = false").bundle == base
    follow_bundle(state, base, "")
    assert configured().bundle == base
    assert has_followed(state, base)
    follow_bundle(state, base, "of-another-release")
    assert configured().bundle == base
    (state / FILE).write_bytes(b"damaged")
    assert configured().bundle == base
    assert not has_followed(state, base)
