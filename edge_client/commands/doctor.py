"""``doctor``: what keeps the device from its work, and the way out."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING

from edge_client.commands import add_config, add_json
from fleet_protocol.command_line import print_json

if TYPE_CHECKING:
    from edge_client.commands import Commands

_SIGNS = {"ok": "ok  ", "warning": "WARN", "problem": "FAIL"}


def add(commands: Commands) -> None:
    """Add the command."""
    doctor = commands.add_parser("doctor", help="check microphone, disk, clock, model, aggregator; say what to do")
    add_json(doctor)
    add_config(doctor, search=False)  # that there is none is a finding
    doctor.set_defaults(command=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    from edge_client.daemon.diagnosis import examine

    findings = []
    for finding in examine(options.config):
        findings.append(finding)
        if not options.json:
            print(f"{_SIGNS[finding.verdict]}  {finding.check:<14} {finding.found}", flush=True)
            if finding.way_out:
                print(f"{'':22}-> {finding.way_out}", flush=True)
    if options.json:
        print_json([dataclasses.asdict(finding) for finding in findings])
    return int(any(finding.verdict == "problem" for finding in findings))
