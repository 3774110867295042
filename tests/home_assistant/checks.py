"""What must hold between a device and Home Assistant, in the order in which it is looked at; each is one line."""

import itertools
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fleet_protocol.ground.sample_sounds import RATE_HZ
from tests.home_assistant.core import complaints
from tests.home_assistant.house import LABELS, House
from tests.support.asked_device import ask
from tests.support.edge_process import wait_for

CHECKS: list[Callable[[House], None]] = []
PAUSE = "switch.shelf_pause"
SOUND, COUNTER, BELL = "event.shelf_sound", "counter.heard", "binary_sensor.shelf_doorbell"
ENTITIES = {
    *(f"binary_sensor.shelf_{name}" for name in (*LABELS, "problem", "listening")),
    *(f"switch.shelf_listen_for_{name}" for name in LABELS),
    *(f"sensor.shelf_{name}" for name in ("last_sound", "last_error", "started", "bundle", "runtime", "question")),
    *(SOUND, "event.shelf_asks", "button.shelf_question_yes", "button.shelf_question_no"),
    *("select.shelf_question_it_was", PAUSE),
}


def check(function: Callable[[House], None]) -> Callable[[House], None]:
    """Have a function be one of the checks."""
    CHECKS.append(function)
    return function


def heard(house: House) -> int:
    """Return how often the blueprint's automation ran."""
    return int(house.core.state(COUNTER))


def ring(house: House) -> None:
    """Play the doorbell until Home Assistant has heard of it, and wait for its end."""
    before = house.core.states()[SOUND]["state"]
    for _ in range(10):
        house.device.play("doorbell", 6)
        end = time.monotonic() + 60  # played once more, it would count twice
        while time.monotonic() < end:
            if house.core.states()[SOUND]["state"] != before:
                wait_for(lambda: house.core.state(BELL) == "off", what="the sound's end")
                return
            time.sleep(0.2)
    raise AssertionError("the doorbell was played ten times and never heard")


@check
def home_assistant_discovers_all_entities(house: House) -> None:
    """MQTT is set up, and the device with everything it has is there."""
    more = {"set_client_cert": False, "set_ca_cert": "off", "transport": "tcp"}
    house.core.add("mqtt", broker="127.0.0.1", port=house.broker.port, protocol="5", other_settings=more)
    wait_for(lambda: house.core.states().keys() >= ENTITIES, 180, f"entities besides {[*house.core.states()]}")
    wait_for(lambda: house.core.state(BELL) == "off", 180, "the sensor's state")
    assert set(house.core.sensors()) == {*LABELS}


@check
def the_blueprint_of_sounds_runs_once_for_each(house: House) -> None:
    """Each sound that is heard sets it off once."""
    for number in (1, 2):
        ring(house)
        wait_for(lambda number=number: heard(house) >= number, what="the automation")
        assert heard(house) == number, f"it ran {heard(house)} times after {number} sounds"


@check
def a_switch_pauses_the_device_and_shows_what_others_did(house: House) -> None:
    """Nothing is heard in a pause, and the device listens again after it."""
    house.core.request("POST", "services/switch/turn_on", {"entity_id": PAUSE})
    wait_for(lambda: (house.device.status().get("paused") or {}).get("closed"), 180, "the pause")
    wait_for(lambda: house.core.state(PAUSE) == "on", 180, "the switch")
    assert house.core.states()[PAUSE]["attributes"]["by"] == "Home Assistant"
    house.device.command("resume")
    wait_for(lambda: house.core.state(PAUSE) == "off", 180, "the end of the pause")
    house.device.command("pause")
    wait_for(lambda: house.core.state(PAUSE) == "on", 180, "the pause by a command")
    house.core.request("POST", "services/switch/turn_off", {"entity_id": PAUSE})
    wait_for(lambda: house.core.state(PAUSE) == "off", 180, "the end of that")
    one = "switch.shelf_listen_for_doorbell"
    house.core.request("POST", "services/switch/turn_off", {"entity_id": one})
    wait_for(lambda: "doorbell" in house.device.status()["off"], 180, "a device that listens for it no more")
    wait_for(lambda: house.core.state(one) == "off", 180, "the label's switch")
    house.device.command("clips", "listen", "doorbell", "--on")
    wait_for(lambda: house.core.state(one) == "on", 180, "the label that is on again")
    ran = heard(house)
    ring(house)
    wait_for(lambda: heard(house) == ran + 1, what="the automation")


@check
def the_blueprint_of_questions_asks_and_answers(house: House) -> None:
    """A question is a notification, and what is tapped there answers it."""
    question = ask(house.device.config, "knock", house.device.recordings["bark"][: 2 * RATE_HZ])
    wait_for(lambda: "knock" in json.dumps(notifications(house)), 180, "the notification")
    assert house.core.state("sensor.shelf_question") == "Was that knock?"
    action = {"action": f"auricle|event.shelf_asks|no|{question.question_id}"}
    house.core.request("POST", "events/mobile_app_notification_action", action)
    wait_for(lambda: house.core.state("sensor.shelf_question") != "Was that knock?", 180, "the answer")


def notifications(house: House) -> object:
    """Return what Home Assistant shows its owner."""
    return house.core.socket.ask("persistent_notification/get")


@check
def a_long_sound_is_one_while_a_label_is_renamed(house: House) -> None:
    """Teaching ends no sound; the renamed label keeps its entity, under the new name."""
    before, ran, seen = house.core.sensors(), heard(house), len(house.core.socket.changes)
    player = house.device.play_on("doorbell")
    wait_for(lambda: house.core.state(BELL) == "on", what="the doorbell")
    house.device.command("clips", "relabel", "--label", "knock", "tapping")
    wait_for(lambda: "tapping" in house.core.sensors(), what="the new name")
    wait_for(lambda: "tapping" in house.device.labels(), what="what the device knows")
    player.kill()
    wait_for(lambda: house.core.state(BELL) == "off", what="the sound's end")

    def states() -> list[str]:
        return [state for entity, state in house.core.socket.changes[seen:] if entity == BELL]

    wait_for(lambda: "off" in states(), what="word of the sound's end")
    assert [state for state, _ in itertools.groupby(states())] == ["on", "off"], f"it was {states()}"
    assert heard(house) == ran + 1, f"the automation ran {heard(house) - ran} times"
    after = house.core.sensors()
    assert set(after) == set(before) - {"knock"} | {"tapping"}, f"its sensors are {after}"
    assert after["tapping"] == before["knock"], f"{before['knock']} became {after['tapping']}"


@check
def a_label_removed_loses_its_entity(house: House) -> None:
    """With Home Assistant up."""
    sensor = house.core.sensors()["bark"]
    house.device.command("clips", "delete", "--yes", "--label", "bark")
    wait_for(lambda: "bark" not in house.core.sensors(), 180, "the removal")
    assert sensor not in house.core.states()


@check
def home_assistant_restarted_finds_what_was_renamed_and_removed(house: House) -> None:
    """While it was down; and it takes nothing old for new."""
    ring(house)
    ran, asked, before = heard(house), house.core.state("event.shelf_asks"), house.core.sensors()
    house.core.stop()
    house.device.command("clips", "relabel", "--label", "telephone", "phone")
    gone = next(label for label in before if label in ("knock", "tapping"))
    house.device.command("clips", "delete", "--yes", "--label", gone)
    wait_for(lambda: house.device.labels() == {"doorbell", "phone"}, 300, "what the device knows")
    house.core.start()
    wait_for(lambda: house.core.state(BELL) == "off", 180, "the device")
    wait_for(lambda: set(house.core.sensors()) == {"doorbell", "phone"}, 180, "the sensors of what is known, alone")
    assert house.core.sensors()["phone"] == before["telephone"]
    lost = [name for name, one in house.core.states().items() if "shelf" in name and one["state"] == "unavailable"]
    assert not [name for name in lost if "question" not in name], f"unavailable: {lost}"
    assert heard(house) in (0, ran), "the automation ran for an old sound"
    assert house.core.state("event.shelf_asks") in (asked, "unknown"), "an old question was asked anew"


@check
def the_broker_restarted_brings_the_device_back(house: House) -> None:
    """With nothing retained: this broker keeps nothing on disk."""
    house.broker.kill()
    wait_for(lambda: house.core.state(BELL) == "unavailable", 180, "Home Assistant's notice")
    house.broker.start()
    wait_for(lambda: house.core.state(BELL) == "off", 300, "the device")
    ring(house)


@check
def a_device_killed_is_unavailable_and_comes_back(house: House) -> None:
    """By MQTT's last will; coming back is no sound and no question."""
    ran, asked = heard(house), house.core.state("event.shelf_asks")
    house.device.end(signal.SIGKILL)
    wait_for(lambda: house.core.state(BELL) == "unavailable", 180, "the last will")
    house.device.start(os.environ)
    wait_for(lambda: house.core.state(BELL) == "off", 300, "the device")
    assert (heard(house), house.core.state("event.shelf_asks")) == (ran, asked)
    ring(house)
    wait_for(lambda: heard(house) == ran + 1, what="the automation")


@check
def a_pipeline_is_woken_by_a_taught_sound(house: House) -> None:
    """`assist_pipeline/run` through the Wyoming integration, whose entry has the device's name."""
    entry = voice(house)
    house.core.add("wyoming", host="127.0.0.1", port=house.start_recogniser())
    wait_for(lambda: entity(house, "wake_word") and entity(house, "stt"), 180, "the entities of voice")
    number, _ = house.core.socket.begin(
        "assist_pipeline/run", start_stage="wake_word", end_stage="wake_word", timeout=120,
        input={"sample_rate": RATE_HZ, "timeout": 0}, pipeline=pipeline(house),
    )  # fmt: skip
    handler = house.core.socket.event(number)["data"]["runner_data"]["stt_binary_handler_id"]
    started = house.core.socket.event(number)
    assert started["type"] == "wake_word-start", started
    for piece in sound(house):
        house.core.socket.send_binary(bytes([handler]) + piece)
        time.sleep(0.05)
    woken = house.core.socket.event(number)
    assert woken["type"] == "wake_word-end", woken
    assert woken["data"]["wake_word_output"].get("wake_word_id") == "doorbell", woken
    assert entry["title"] != "auricle", "the entry is titled as every device's"


def voice(house: House) -> dict[str, Any]:
    """Return the entry of the device's wake words, which is added the first time."""
    if not house.voice_entry:
        house.voice_entry = house.core.add("wyoming", host="127.0.0.1", port=house.voice_port)
    return house.voice_entry


def entity(house: House, kind: str) -> str:
    """Return the first entity of a kind, "" where there is none."""
    return next((name for name in house.core.states() if name.startswith(f"{kind}.")), "")


def pipeline(house: House) -> str:
    """Make a voice assistant that waits for the doorbell; return its identifier."""
    settings = dict.fromkeys(("stt_engine", "stt_language", "tts_engine", "tts_language", "tts_voice"))
    settings |= {"conversation_engine": "conversation.home_assistant", "conversation_language": "en", "language": "en"}
    settings |= {"name": "Voice", "wake_word_entity": entity(house, "wake_word"), "wake_word_id": "doorbell"}
    settings |= {"stt_engine": entity(house, "stt"), "stt_language": "en"}
    made = house.core.socket.ask("assist_pipeline/pipeline/create", **settings)
    return str(made["id"])


def sound(house: House) -> Iterator[bytes]:
    """Yield quiet and then the doorbell, 16-bit PCM, in pieces of a tenth of a second."""
    quiet = np.random.default_rng(5).normal(0, 0.001, 3 * RATE_HZ)
    samples = np.concatenate([quiet, house.device.recordings["doorbell"][: 8 * RATE_HZ]])
    pcm = (samples * 32_767).clip(-32_768, 32_767).astype("<i2")
    for start in range(0, len(pcm), RATE_HZ // 10):
        yield pcm[start : start + RATE_HZ // 10].tobytes()


@check
def a_satellite_is_woken_by_a_taught_sound(house: House) -> None:
    """A real one, which Home Assistant knows and tells to run."""
    port, log = house.start_satellite("doorbell")
    house.core.add("wyoming", host="127.0.0.1", port=port)
    wait_for(lambda: "Streaming audio" in log.read_text(), 180, f"the satellite's waking; see {log}")


@check
def satellites_do_not_lock_home_assistant_out(house: House) -> None:
    """Four that stream, and the entry can be loaded anew."""
    entry_id = voice(house)["entry_id"]
    for _ in range(4):
        house.start_satellite("telephone")
    time.sleep(10)  # they stream, without an end
    for _ in range(2):
        house.core.request("POST", f"config/config_entries/entry/{entry_id}/reload", {})
        state = house.core.entry(entry_id)["state"]
        assert state == "loaded", f"the entry is {state}"


@check
def nothing_about_us_is_in_home_assistants_log(house: House) -> None:
    """No warning, and no error."""
    found = complaints((house.folder / "home-assistant.log").read_text())
    assert not found, f"{len(found)} lines, such as {found[0][:400]}"
