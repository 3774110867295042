"""Questions on a real broker (Mosquitto): what Home Assistant shows, and the answers that come back to the device."""

import json
import re

import jinja2
import pytest
import yaml

from edge_client.errors import ClipError
from edge_client.events import Asked
from edge_client.events.home_assistant import discovery
from edge_client.events.mqtt import MqttSink
from edge_client.events.mqtt_commands import reply_of
from edge_client.storage.label_keys import label_key
from tests.edge_client.events import test_home_assistant
from tests.support.checkout import ROOT
from tests.support.edge_process import wait_for
from tests.support.mqtt_broker import DEVICE, Broker, Reader, needs_broker
from tests.support.sounds import write_clips
from tests.support.taught_device import PlayingDaemon

BLUEPRINT = ROOT / "examples/home_assistant/when_it_asks.yaml"
ANSWER = f"{test_home_assistant.BASE}/question/answer"
OLD = Asked("0" * 16, 1_700_000_000.5, "{{ 7 * 7 }}", False, 0.61)
NEW = Asked("1" * 16, 1_700_000_100.5, "bell", True, 0.83, guess="telephone, chime")
SHARED = test_home_assistant.SHARED | test_home_assistant.SEVERAL
COMMANDS = {
    "button": SHARED - {"state_topic"} | {"command_topic", "payload_press"},
    "select": SHARED | {"value_template", "command_topic", "command_template", "options"},
}


@pytest.fixture
def asking(tmp_path, start):
    """A broker, a sink that asks, and what it was answered."""
    broker, replies = start(Broker, tmp_path), []
    return (
        broker,
        start(MqttSink, broker.config(), DEVICE, "Küche", tmp_path, lambda *reply: replies.append(reply)),
        replies,
    )


def test_every_document_about_questions_is_one_that_home_assistant_takes():
    device = test_home_assistant.device_of("bell", "{{ 7 * 7 }}")
    before, documents = discovery(*device), discovery(*device, asks=True)
    more = {topic: document for topic, document in documents.items() if topic not in before}
    assert len(more) == 5
    for topic, document in more.items():
        component, name = re.fullmatch(rf"(\w+)/{test_home_assistant.NODE}/(\w+)/config", topic).groups()
        assert set(document) <= (test_home_assistant.OPTIONS | COMMANDS)[component], name
        assert document.get("device_class") in test_home_assistant.CLASSES.get(component, {None})
        assert document.get("command_topic", ANSWER) == ANSWER
        assert "7 * 7" not in document.get("value_template", "") + document.get("command_template", "")
    choice = documents[f"select/{test_home_assistant.NODE}/question_was/config"]
    command = jinja2.Template(choice["command_template"]).render(value='"quoted"')
    assert reply_of(command.encode(), OLD.question_id) == (OLD.question_id, "was", '"quoted"')


@needs_broker
def test_the_oldest_question_is_shown_until_it_is_answered_and_each_is_an_event(asking, start):
    broker, sink, _ = asking
    reader = start(Reader, broker)
    assert reader.next(f"{test_home_assistant.BASE}/availability").payload == b"online"
    sink.announce(["bell"])
    sink.ask([OLD])
    event = reader.next(f"{test_home_assistant.BASE}/question/asked")
    assert not event.retain
    assert json.loads(event.payload) == {
        "event_type": "asked",
        "question": "Was that {{ 7 * 7 }}?",
        "answer_topic": ANSWER,
        "id": OLD.question_id,
        "time": "2023-11-14T22:13:20.500Z",
        "label": OLD.label,
        "detected": False,
        "score": 0.61,
    }
    sink.ask([NEW, OLD])
    asked = json.loads(reader.next(f"{test_home_assistant.BASE}/question/asked").payload)
    assert (asked["id"], asked["guess"]) == (NEW.question_id, "telephone, chime")
    choice = f"homeassistant/select/{test_home_assistant.NODE}/question_was/config"

    def is_there(found):
        both = [json.loads(found.get(topic, "{}")) for topic in (f"{test_home_assistant.BASE}/question", choice)]
        return (both[0].get("open"), both[1].get("options")) == (2, ["bell"])

    found = test_home_assistant.retained(broker, is_there)
    shown = json.loads(found[f"{test_home_assistant.BASE}/question"])
    assert shown["id"] == OLD.question_id
    assert jinja2.Template(json.loads(found[choice])["value_template"]).render(value_json=shown) == "None"
    sink.ask([NEW])
    sink.ask([])
    test_home_assistant.retained(
        broker, lambda found: json.loads(found[f"{test_home_assistant.BASE}/question"])["question"] == "none"
    )


@needs_broker
def test_an_open_question_is_told_once_also_to_a_device_that_starts_again(asking, start, tmp_path):
    broker, sink, _ = asking
    reader = start(Reader, broker)
    topic = f"{test_home_assistant.BASE}/question/asked"
    sink.ask([OLD])
    reader.next(topic)
    sink.close()
    sink = start(MqttSink, broker.config(), DEVICE, "Küche", tmp_path, print)
    sink.ask([NEW, OLD])
    assert json.loads(reader.next(topic).payload)["id"] == NEW.question_id


@needs_broker
def test_what_answers_can_be_pressed_while_something_is_asked(asking, start):
    """Home Assistant's availability, of the documents and of what is retained."""
    broker, sink, _ = asking
    sink.announce(["bell"])
    node = test_home_assistant.NODE
    names = (f"button/{node}/question_yes", f"button/{node}/question_no", f"select/{node}/question_was")
    choices = [f"homeassistant/{name}/config" for name in names]
    question = f"{test_home_assistant.BASE}/question"

    def available(found):
        shown = set()
        for topic in choices:
            document = json.loads(found[topic])
            assert document["availability_mode"] == "all"
            for one in document["availability"]:
                template, value = jinja2.Template(one.get("value_template", "{{ value }}")), found[one["topic"]]
                shown.add(template.render(value=value, value_json=json.loads(value) if value[0] == "{" else None))
        return "offline" not in shown

    test_home_assistant.retained(broker, lambda found: {*choices, question} <= set(found) and not available(found))
    sink.ask([OLD])
    test_home_assistant.retained(broker, lambda found: available(found))
    sink.ask([])
    test_home_assistant.retained(broker, lambda found: not available(found))


@needs_broker
def test_answers_come_back_and_what_is_none_changes_nothing(asking, start, caplog):
    broker, sink, replies = asking
    reader = start(Reader, broker)
    reader.next(f"{test_home_assistant.BASE}/question")  # it has subscribed
    sink.ask([NEW, OLD])
    reader.next(f"{test_home_assistant.BASE}/question/asked")

    def send(payload, *, retain=False):
        reader.client.publish(ANSWER, payload, qos=1, retain=retain).wait_for_publish(180)

    for bad in (b"perhaps", b"\xff\xfe", b"[" * 1500, b"y" * 5000):  # with what follows, as many as may wait
        send(bad)
        reader.next(ANSWER)
    send("yes")
    send(json.dumps({"id": NEW.question_id, "answer": "was", "label": "kettle"}))
    wait_for(lambda: len(replies) == 2, what="two answers")
    assert replies == [(OLD.question_id, "yes", ""), (NEW.question_id, "was", "kettle")]
    assert "an answer by MQTT was refused" in caplog.text
    sink.ask([])
    with pytest.raises(ClipError, match="no question is open"):
        reply_of(b"no", "")


@pytest.mark.parametrize(
    "bad", [b"", b"perhaps", b"[1]", b'{"id": 7}', b"\xff\xfe", b"[" * 1500, b'"yes"', b"y" * 5000]
)
def test_what_is_no_answer_is_refused(bad):
    with pytest.raises(ClipError, match="answer"):
        reply_of(bad, OLD.question_id)


def rendered(part, **values):
    """A part of a blueprint as Home Assistant would run it."""
    if isinstance(part, dict):
        return {key: rendered(value, **values) for key, value in part.items()}
    if isinstance(part, list):
        return [rendered(value, **values) for value in part]
    environment = jinja2.Environment()
    return environment.from_string(part).render(**values) if isinstance(part, str) else part


def test_what_is_tapped_on_the_phone_is_an_answer_to_its_device():
    document = yaml.load(BLUEPRINT.read_text(), test_home_assistant.Blueprint)
    about = document.pop("blueprint")
    assert test_home_assistant.inputs_used(document) == set(about["input"])
    assert set(document) == {"mode", "max", "triggers", "variables", "actions"}
    asked, answered = document["actions"][0]["choose"]
    attributes = {"question": "Was that bell?", "id": NEW.question_id}
    states = {"id": "asked", "from_state": "x", "to_state": {"attributes": attributes}}
    (notify,) = asked["sequence"]
    sent = rendered(notify["data"], trigger=states, asks="event.shelf_asks")
    assert sent["message"] == "Was that bell?"
    buttons = sent["data"]["actions"]
    assert [button["title"] for button in buttons] == ["Yes", "No", "It was ..."]
    (publish,) = answered["sequence"]
    for button, says in zip(buttons, ("yes", "no", "was"), strict=True):
        data = {"action": button["action"]} | ({"reply_text": 'a "cup"'} if says == "was" else {})
        trigger = {"id": "answered", "event": {"data": data}}
        tapped = data["action"].split("|")
        values = {"trigger": trigger, "tapped": tapped, "asks": "event.shelf_asks"}
        condition = answered["conditions"][0]["value_template"]
        assert rendered(condition, **values) == "True"
        assert rendered(condition, **values | {"asks": "event.other_asks"}) == "False"
        message = rendered(publish["data"], **values, state_attr=lambda entity, name: f"{entity} {name}")
        assert message["topic"] == "event.shelf_asks answer_topic"
        label = 'a "cup"' if says == "was" else ""
        assert reply_of(message["payload"].encode(), "") == (NEW.question_id, says, label)


SECTIONS = """
teach_epochs = 60
# What is well heard nearly reaches them, and no score does.
[detector.thresholds]
kettle = 1.0
bell = 1.0
[mqtt]
host = "127.0.0.1"
port = {port}
"""


@needs_broker
@pytest.mark.slow
def test_a_running_device_is_in_doubt_asks_and_learns_what_home_assistant_answers(tmp_path, start):
    broker = start(Broker, tmp_path)
    reader = start(Reader, broker)
    with PlayingDaemon(tmp_path / "shelf", SECTIONS.format(port=broker.port)) as device:
        write_clips(device.folder / "recordings", "yes", 20, seed=9)
        device.teach({"kettle": "yes", "bell": "no"}, 6)
        device.start()
        device_id = device.device_state().identity.load().device_id
        question = json.loads(reader.next(f"auricle/{device_id}/question/asked").payload)
        assert (question["label"], question["detected"]) == ("kettle", False)
        reply = json.dumps({"id": question["id"], "answer": "yes"})
        taught = device.device_state().model.taught()
        reader.client.publish(question["answer_topic"], reply, qos=1).wait_for_publish(180)
        take = device.state / "clips" / "kettle" / f"{question['id']}.wav"
        wait_for(take.exists, what="the answer as a take")
        wait_for(lambda: device.device_state().model.taught() != taught, what="a model that learned it")
        assert not (device.state / "questions" / f"{question['id']}.wav").exists()
        sensor = f"homeassistant/binary_sensor/auricle_{device_id}/label_{label_key('kettle')}/config"
        device.command("clips", "relabel", "--label", "kettle", "pot")
        found = test_home_assistant.arrived(reader, lambda topic, payload, _: topic == sensor and '"pot"' in payload)
        assert (sensor, "") not in [one[:2] for one in found]
        started = [json.loads(payload)["started"] for topic, payload, _ in found if topic.endswith("/status")]
        assert len(set(started)) <= 1
        device.end()
        assert "Traceback" not in device.log()
