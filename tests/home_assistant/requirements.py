"""Prints what integrations of Home Assistant ask for besides its package, which it would fetch when it starts.

Runs in Home Assistant's own environment, as a file of its own.
"""

import json
from collections.abc import Iterable
from pathlib import Path

# Beside those that Home Assistant always sets up; MQTT imports its supervisor's.
OURS = ("config", "conversation", "hassio", "isal", "mqtt", "onboarding", "system_log", "wyoming")


def needed(components: Path, domains: Iterable[str]) -> list[str]:
    """Return the requirements of integrations and of all that these depend on, by the manifests in a folder."""
    waiting, seen, found = {*domains}, set(), set()
    while waiting:
        seen.add(domain := waiting.pop())
        manifest = json.loads((components / domain / "manifest.json").read_text(encoding="utf-8"))
        found |= {*manifest.get("requirements", ())}
        waiting |= {*manifest.get("dependencies", ())} - seen
    return sorted(found)


if __name__ == "__main__":
    from homeassistant import bootstrap  # type: ignore[import-not-found]

    always = {*bootstrap.CORE_INTEGRATIONS, *bootstrap.DEFAULT_INTEGRATIONS}
    print(*needed(Path(bootstrap.__file__).parent / "components", {*always, *OURS}), sep="\n")
