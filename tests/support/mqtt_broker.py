"""A real broker (Mosquitto) of a test's own, and somebody who reads everything on it."""

import contextlib
import json
import os
import queue
import shutil
import socket
import subprocess
import time

import pytest

from edge_client.config.sections import MqttConfig
from edge_client.events import Event
from tests.support.desk import free_port
from tests.support.edge_process import wait_for

DEVICE = "0123456789abcdef0123456789abcdef"

# Debian puts it where a plain user's PATH does not look.
MOSQUITTO = shutil.which("mosquitto", path=os.environ["PATH"] + ":/usr/sbin")
PASSWD = shutil.which("mosquitto_passwd")
needs_broker = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed: apt install mosquitto")


def event(label="siren"):
    return Event(1_700_000_000.5, "detected", label, "c7", 0.91, -24.0)


class Broker:
    """A Mosquitto of its own, on a free port of the loopback interface."""

    def __init__(self, folder, password=None, certificate=None, settings=""):
        self.port = free_port()
        self.folder = folder
        self.password = password
        access = "allow_anonymous true"
        if password is not None:
            access = f"allow_anonymous false\npassword_file {folder}/passwords"
            (folder / "passwords").touch(0o600)
            subprocess.run([PASSWD, "-b", str(folder / "passwords"), "pi", password], check=True)
        tls = f"certfile {certificate}\nkeyfile {certificate}\n" if certificate else ""  # PEM, with its key
        # A broker that root starts becomes another user, who may not look into pytest's folders.
        (folder / "broker.conf").write_text(f"listener {self.port} 127.0.0.1\n{access}\n{tls}user root\n{settings}\n")
        self.start()

    def start(self):
        command = [MOSQUITTO, "-c", str(self.folder / "broker.conf")]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 120
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < end, "the broker did not start"
                time.sleep(0.02)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def config(self, **other):
        login = {"username": "pi", "password": self.password} if self.password else {}
        return MqttConfig(host="127.0.0.1", port=self.port, **login, **other)


class Reader:
    """Somebody who subscribes to everything."""

    def __init__(self, broker):
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion

        self.messages = queue.Queue()
        subscribed = queue.Queue()
        self.client = Client(CallbackAPIVersion.VERSION2)
        if broker.password:
            self.client.username_pw_set("pi", broker.password)
        self.client.on_message = lambda _client, _data, message: self.messages.put(message)
        self.client.on_subscribe = lambda *_: subscribed.put(True)
        self.client.connect("127.0.0.1", broker.port)
        self.client.loop_start()
        self.client.subscribe("#", qos=1)
        subscribed.get(timeout=180)

    def next(self, topic, timeout_s=180.0):
        """Return the next message on a topic, whatever else comes before."""
        end = time.monotonic() + timeout_s
        while True:
            message = self.messages.get(timeout=max(0.01, end - time.monotonic()))
            if message.topic == topic:
                return message

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


class Sensors:
    """The sensors of labels on the broker, each as ``DEVICE: NAME``, as Home Assistant calls them."""

    def __init__(self, reader):
        self.messages, self.names = reader.messages, {}

    def become(self, there, gone):
        """Wait until there is one of a label, and none of another."""

        def settled():
            while not self.messages.empty():
                message = self.messages.get()
                if message.topic.startswith("homeassistant/binary_sensor/"):
                    one = json.loads(message.payload or "{}")
                    self.names[message.topic] = f"{one['device']['name']}: {one['name']}" if one else ""
            names = "\n".join(self.names.values())
            return there in names and gone not in names

        wait_for(settled, what=f"{there} in place of {gone} in MQTT")


@contextlib.contextmanager
def starting():
    """Start brokers, sinks and readers; end them with the body."""
    running = []

    def started(kind, *arguments, **settings):
        one = kind(*arguments, **settings)
        running.append(one)
        return one

    yield started
    for one in reversed(running):
        one.kill() if isinstance(one, Broker) else one.close()
