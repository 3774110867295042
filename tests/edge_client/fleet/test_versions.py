"""What a device says of what it runs: texts that its aggregator takes, and no name of a file of its owner's."""

import dataclasses

from edge_client.fleet.enrolment import versions
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.limits import VERSION_LENGTH
from fleet_protocol.numbers.tensors import digest


def test_a_bundle_that_came_with_the_program_has_its_name_and_ones_own_a_digest_alone(tmp_path):
    ready, own = find_bundle("cnn1"), tmp_path / "grandmothers.auricle"
    own.write_bytes(ready.read_bytes())
    assert versions(ready).bundle == "cnn1"
    assert versions(own) == dataclasses.replace(versions(ready), bundle="")
    assert versions(own).bundle_sha256 == digest(own.read_bytes())


def test_the_aggregator_takes_what_any_system_says_of_itself(monkeypatch, tmp_path):
    bundle = tmp_path / "own.auricle"
    bundle.write_bytes(b"")
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: {"PRETTY_NAME": " My\n\u202eown " + "x" * 300})
    said = dataclasses.asdict(versions(bundle))
    assert said["system"].startswith("Myown x")
    for text in said.values():
        assert text.isprintable()
        assert text == text.strip()
        assert len(text) <= VERSION_LENGTH
