"""What rules do: an MQTT message, a webhook, a message to a phone, a program of the owner's."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from edge_client.config.rules import RuleConfig
from edge_client.errors import EdgeError
from fleet_protocol.client.answers import Deadline

FOLDER = "rules.d"
_WEBHOOK_S, _PROGRAM_S = 20.0, 30.0
# Answers of a receiver that cannot become better by another try.
_REFUSALS, _PERHAPS_LATER = range(300, 500), (408, 425, 429)


class ActionError(EdgeError):
    """An action failed; ``for_good``: another try would fail too."""

    def __init__(self, message: str, *, for_good: bool = False) -> None:
        super().__init__(message)
        self.for_good = for_good


Broker = Callable[[str, str], bool]
"""Sends a text to a topic of the MQTT broker; returns False where it is away."""
Action = Callable[[RuleConfig, Mapping[str, Any]], None]


class Actions:
    """Does what rules say, one thing at a time. ``folder``: of the configuration, beside which ``rules.d`` is."""

    def __init__(self, folder: Path, broker: Broker | None) -> None:
        self._programs, self._broker = folder / FOLDER, broker
        self._do: dict[str, Action] = {"mqtt": self._publish, "webhook": _post, "program": self._start}

    def do(self, rule: RuleConfig, action: str, document: Mapping[str, Any]) -> None:
        """Do one of :func:`actions_of`. Raises ActionError."""
        name, _, number = action.partition(" ")
        if name == "notify":
            _notify(rule.notify[int(number or 1) - 1], document)
        else:
            self._do[name](rule, document)

    def _publish(self, rule: RuleConfig, document: Mapping[str, Any]) -> None:
        if self._broker is None:
            raise ActionError("there is no section [mqtt]", for_good=True)
        if not self._broker(rule.mqtt, json.dumps(document)):
            raise ActionError("the MQTT broker is away")

    def _start(self, rule: RuleConfig, document: Mapping[str, Any]) -> None:
        """Run a program with the document on its standard input."""
        path = self._programs / rule.program
        if problem := program_problem(path):
            raise ActionError(problem, for_good=True)
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TZ") if name in os.environ}
        try:
            child = subprocess.Popen(
                [path],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=kept,
                cwd=self._programs,
                start_new_session=True,
            )
        except OSError as error:
            raise ActionError(f"{path} cannot be run: {error.strerror}", for_good=True) from error
        try:
            child.communicate(json.dumps(document).encode(), timeout=_PROGRAM_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise ActionError(f"{path} took more than {_PROGRAM_S:g} s, and was ended", for_good=True) from None
        if child.returncode:
            raise ActionError(f"{path} ended with status {child.returncode}", for_good=True)


def actions_of(rule: RuleConfig) -> list[str]:
    """Return what a rule does, each of which is told, and tried again, by itself: of several addresses "notify 2"."""
    several = len(rule.notify) > 1
    found = [name for name in ("mqtt", "webhook") if getattr(rule, name)]
    found += [f"notify {number}" if several else "notify" for number in range(1, len(rule.notify) + 1)]
    return found + (["program"] if rule.program else [])


def program_problem(path: Path) -> str:
    """Return why a file of ``rules.d`` is not run, "" where it is."""
    try:
        folder, found = path.parent.stat(), path.lstat()
    except OSError as error:
        return f"{path}: {error.strerror}"
    trusted = {0, os.geteuid()}
    if not stat.S_ISREG(found.st_mode):
        return f"{path} is no file"
    if not found.st_mode & stat.S_IXUSR:
        return f"{path} is not executable: chmod 755"
    for place, one in ((path, found), (path.parent, folder)):
        if one.st_uid not in trusted or one.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"{place} can be changed by others: chown it to this user or root, and chmod go-w"
    return ""


def _post(rule: RuleConfig, document: Mapping[str, Any]) -> None:
    """POST a document; with a secret, signed: HMAC-SHA256 of the time, a point and the body."""
    import httpx

    body, moment = json.dumps(document).encode(), str(int(time.time()))
    headers = {"content-type": "application/json", "auricle-time": moment}
    if rule.webhook_secret:
        signed = hmac.new(rule.webhook_secret.encode(), f"{moment}.".encode() + body, hashlib.sha256)
        headers["auricle-signature"] = f"sha256={signed.hexdigest()}"
    deadline = Deadline()
    try:
        deadline.set(_WEBHOOK_S)
        with (
            httpx.Client(timeout=_WEBHOOK_S, follow_redirects=False) as client,
            # What it answers beside the status is not read.
            client.stream(
                "POST", rule.webhook, content=body, headers=headers, extensions={"trace": deadline.trace}
            ) as answer,
        ):
            status = answer.status_code
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        late = deadline.passed or isinstance(error, httpx.TimeoutException)
        why = f"no answer within {_WEBHOOK_S:g} s" if late else type(error).__name__
        raise ActionError(f"the webhook was not reached: {why}") from None  # the error may quote the address
    finally:
        deadline.close()
    if status // 100 == 3:
        raise ActionError(
            f"the webhook redirects ({status}), which is not followed: name its last address", for_good=True
        )
    if status // 100 != 2:
        later = status not in _REFUSALS or status in _PERHAPS_LATER
        raise ActionError(f"the webhook answered {status}", for_good=not later)


def _notify(address: str, document: Mapping[str, Any]) -> None:
    try:
        import apprise
    except ImportError:
        raise ActionError("notify needs Apprise: install Auricle with its extra notify", for_good=True) from None
    kind = address.partition("://")[0][:20]
    sender = apprise.Apprise()
    if not sender.add(address):
        raise ActionError(f"notify: Apprise cannot use the address {kind}://...", for_good=True)
    if not sender.notify(body=str(document["message"]), title=str(document["device"])):
        raise ActionError(f"notify: the message by {kind}://... was not taken")
