"""Finding a microphone: by its name, and at a rate that is no lower than the model's where there is one."""

import pytest

from edge_client.capture.arecord import CaptureDevice, candidate_rates, matching_device, port_of
from edge_client.errors import AudioError

USB = CaptureDevice("USB PnP Sound Device: Audio (hw:1,0)")
SECOND_USB = CaptureDevice("USB PnP Sound Device: Audio (hw:2,0)")
CARD = CaptureDevice("plughw:CARD=Device,DEV=0", "USB Camera, USB Audio; Hardware device with all software conversions")
CARD_1 = CaptureDevice("plughw:CARD=Device_1,DEV=0", "USB Camera, USB Audio")
DEFAULT = CaptureDevice("default")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [("pnp sound", USB), ("hw:1,0", USB), ("camera", CARD), ("DEFAULT", DEFAULT), ("card=device,", CARD)],
)
def test_part_of_a_name_or_description_finds_it_in_any_case(wanted, found):
    assert matching_device(wanted, [DEFAULT, USB, CARD]) == found


def test_a_whole_name_wins_over_longer_ones():
    pulse = CaptureDevice("pulse")
    assert matching_device("Pulse", [CaptureDevice("pulse monitor"), pulse]) == pulse


def test_twins_are_told_apart_by_more_of_the_name():
    with pytest.raises(AudioError, match=r"several microphones .*hw:1,0.*hw:2,0.*more of one's name"):
        matching_device("USB PnP", [USB, SECOND_USB])
    assert matching_device("hw:2,0", [USB, SECOND_USB]) == SECOND_USB
    assert matching_device("Device_1", [CARD, CARD_1]) == CARD_1


def test_none_is_an_error_that_lists_what_is_there():
    with pytest.raises(AudioError, match=r"no microphone is named like 'attic'; present: 'default', 'USB PnP"):
        matching_device("attic", [DEFAULT, USB])
    with pytest.raises(
        AudioError, match=r"no microphone is there: plug one in; the user needs the group audio.*play recordings"
    ):
        matching_device("attic", [])


def test_the_models_rate_is_tried_first_then_the_next_above_and_one_that_was_asked_for_alone():
    assert candidate_rates(0, 14_400)[:4] == (14_400, 16_000, 22_050, 32_000)
    assert candidate_rates(0, 16_000)[:3] == (16_000, 22_050, 32_000)
    assert candidate_rates(48_000, 16_000) == (48_000,)


def test_two_equal_microphones_are_told_apart_by_their_ports(tmp_path):
    cards, names = tmp_path / "sound", tmp_path / "asound"
    names.mkdir()
    for number, (card, port) in enumerate((("Device", "1-1.2"), ("Device_1", "1-1.3"))):
        (cards / f"card{number}").mkdir(parents=True)
        (cards / f"card{number}" / "device").symlink_to(f"../../../1-1/{port}/{port}:1.0")
        (names / card).symlink_to(f"card{number}")
    ports = [port_of(f"plughw:CARD={name},DEV=0", cards, names) for name in ("Device", "Device_1", "Other")]
    assert ports == ["usb port 1-1.2", "usb port 1-1.3", ""]
    devices = [CaptureDevice("USB PnP", port) for port in ports[:2]]
    assert matching_device("usb port 1-1.3", devices) is devices[1]
    with pytest.raises(AudioError, match="its port"):
        matching_device("USB PnP", devices)
