"""``[[rules]]``: what is done when something is heard."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from edge_client.config.hours import hours_problem
from edge_client.config.sections import require, require_between, url_problem
from fleet_protocol.ground.addresses import is_clear

FIELDS = ("label", "time", "input", "score", "level_db", "guess", "device", "rule")
"""What stands in braces in a message."""
MOST_RULES = 50
_ADDRESS, _MESSAGE = 2000, 1000
_PROGRAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, kw_only=True)
class RuleConfig:
    """One of ``[[rules]]``. Secrets are never shown; docs/rules.md has what each key means."""

    name: str
    labels: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    hours: tuple[str, ...] = ()
    least_score: float = 0.0
    least_level_db: float = -200.0
    times: int = 1
    within_min: float = 5.0
    pause_min: float = 0.0
    first_of_day: bool = False
    only_while: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    louder_than_db: float | None = None
    louder_for_s: float = 10.0
    home: bool = False
    message: str = "{label} at {time}"
    mqtt: str = ""
    webhook: str = field(default="", repr=False)
    webhook_secret: str = field(default="", repr=False)
    insecure_http: bool = False
    notify: tuple[str, ...] = field(default=(), repr=False)
    program: str = ""

    def __post_init__(self) -> None:
        named = 1 <= len(self.name) <= 100 and self.name.isprintable()
        require(named, "name", self.name[:100], "must have 1 to 100 printable characters")
        problem = hours_problem(self.hours)
        require(not problem, "hours", self.hours, problem)
        require_between(self, 0, 1, "least_score")
        require_between(self, 1, 1000, "times")
        require_between(self, 0.1, 1440, "within_min")
        require_between(self, 0, 10_080, "pause_min")
        require_between(self, 0, 3600, "louder_for_s")
        if self.louder_than_db is not None:
            require_between(self, -120, 0, "louder_than_db")
            alone = not (self.labels or self.least_score or self.times > 1)
            rule = "is of a level alone; leave labels, least_score and times out"
            require(alone, "louder_than_db", self.louder_than_db, rule)
            require(not self.home, "home", True, "is not for a level: each input has its own")
        problem = message_problem(self.message)
        require(not problem, "message", self.message[:100], problem)
        require(not set(self.mqtt) & set("+#\0") and len(self.mqtt) <= 200, "mqtt", self.mqtt[:200], "is no topic")
        if self.webhook:
            problem = url_problem(self.webhook, _ADDRESS, ("http", "https"), "https://host/path")
            problem = problem or ("must be like https://host/path" if urlsplit(self.webhook).fragment else "")
            require(not problem, "webhook", "...", problem)  # no part of a secret appears in a log
            rule = "is plain HTTP, so others can read along; use https://, or add insecure_http = true"
            require(self.insecure_http or not is_clear(self.webhook), "webhook", "...", rule)
        require(bool(self.webhook) or not self.webhook_secret, "webhook_secret", "...", "needs a webhook")
        known = all(len(one) <= _ADDRESS and "://" in one for one in self.notify) and len(self.notify) <= 20
        require(known, "notify", "...", "must be at most 20 addresses of Apprise, like ntfy://name")
        plain = not self.program or _PROGRAM.fullmatch(self.program) is not None
        require(plain, "program", self.program[:100], "must be the name of a file in rules.d, beside this file")
        does = self.mqtt or self.webhook or self.notify or self.program
        require(bool(does), "name", self.name, "does nothing: it needs mqtt, webhook, notify or program")


def message_problem(message: str) -> str:
    """Return why a text cannot be a message, "" where it can."""
    if not 1 <= len(message) <= _MESSAGE:
        return f"must have 1 to {_MESSAGE} characters"
    try:
        parts = [part for part in string.Formatter().parse(message) if part[1] is not None]
    except ValueError as error:
        return f"cannot be read: {error}; a brace itself is written twice"
    wrong = [str(name) for _, name, form, conversion in parts if name not in FIELDS or form or conversion]
    return f"may name {', '.join(f'{{{name}}}' for name in FIELDS)}, not {{{wrong[0][:40]}}}" if wrong else ""
