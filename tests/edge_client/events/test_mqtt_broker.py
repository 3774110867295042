"""Why a broker is not reached is said with the way out: by a connection of its own, in the log, by `doctor`."""

import subprocess
import time

import pytest

from edge_client.daemon.diagnosis import examine
from edge_client.errors import ConfigError
from edge_client.events.mqtt import MqttSection, MqttSink
from edge_client.events.mqtt_broker import broker_trouble
from tests.support.desk import free_port
from tests.support.edge_process import EdgeDaemon
from tests.support.mqtt_broker import DEVICE, Broker, needs_broker

pytestmark = needs_broker


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for 127.0.0.1 that signs itself, with its key."""
    path = tmp_path_factory.mktemp("authority") / "broker.pem"
    names = ["-subj", "/CN=broker", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "9", "-keyout", path.with_suffix(".key"), "-out", path]
    subprocess.run(["openssl", "req", *made, *names], check=True, capture_output=True)
    path.write_text(path.read_text() + path.with_suffix(".key").read_text())
    return path


def test_the_reason_is_found_with_the_way_out(tmp_path, start, certificate):
    for folder in (plain := tmp_path / "plain", secure := tmp_path / "secure"):
        folder.mkdir()
    open_, own = start(Broker, plain, "right"), start(Broker, secure, None, certificate)
    here = "127.0.0.1"
    assert broker_trouble(here, open_.port, username="pi", password="right") == ""
    assert broker_trouble(here, own.port, tls=True, ca=certificate) == ""
    assert "refuses" in broker_trouble(here, open_.port, username="pi", password="wrong")
    assert "[mqtt] ca" in broker_trouble(here, own.port, tls=True)
    assert "tls = true" in broker_trouble(here, own.port)
    assert "tls = false" in broker_trouble(here, open_.port, tls=True)
    assert "nothing listens" in broker_trouble(here, free_port())
    assert "no such name" in broker_trouble("nowhere.invalid", 1883)


def test_a_broker_with_its_own_authority_is_reached_and_another_is_named_in_log_and_status(
    tmp_path, start, certificate, caplog
):
    broker = start(Broker, tmp_path, None, certificate)
    found = {}
    for ca in (certificate, None):
        sink = start(MqttSink, broker.config(tls=True, ca=ca), DEVICE, "shelf")
        end = time.monotonic() + 60
        while (trouble := sink.trouble()) != "" and "certificate" not in trouble:
            assert time.monotonic() < end, trouble
            time.sleep(0.05)
        found[ca] = trouble
    assert found[certificate] == ""
    assert "cannot be trusted" in found[None]
    assert "[mqtt] ca" in caplog.text


@pytest.mark.parametrize(
    "host", ["mqtt://broker", "broker:1883", "127.0.0.1:21201", " broker", "[::1]", "user@broker", ""]
)
def test_a_host_that_is_more_than_a_name_is_refused_when_it_is_read(host):
    with pytest.raises(ConfigError, match=r"must be a name or an address alone|must name the broker"):
        MqttSection(host=host)
    for good in ("broker", "broker.local", "127.0.0.1", "::1", "fe80::1%eth0"):
        assert MqttSection(host=good).host == good


def test_a_file_of_authorities_that_is_none_is_named(tmp_path):
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(ConfigError, match=r"ca\.pem cannot be read as certificates"):
        MqttSink(MqttSection(host="127.0.0.1", tls=True, ca=tmp_path / "ca.pem"), DEVICE, "shelf")
    with pytest.raises(ConfigError, match="is for tls = true"):
        MqttSection(host="127.0.0.1", ca=tmp_path / "ca.pem")


def test_doctor_says_whether_the_broker_takes_the_device(tmp_path, bundles):
    more = f'[microphone]\nbackend = "file"\nfile = "none"\n[mqtt]\nhost = "127.0.0.1"\nport = {free_port()}\n'
    device = EdgeDaemon(tmp_path, bundles["cnn1"], more)
    found = {finding.check: finding for finding in examine(device.config)}
    assert found["mqtt"].verdict == "problem"
    assert "nothing listens there" in found["mqtt"].found
