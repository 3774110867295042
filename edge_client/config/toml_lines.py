"""Where in a TOML file a key stands, for messages; the parser itself does not tell."""

from __future__ import annotations

from pathlib import Path


def place(path: Path, text: str, section: str | None, key: str | None = None, nth: tuple[int, ...] = ()) -> str:
    """Return ``FILE, line N`` of a key, or of its section where the key is not found; the file where neither is.

    Args:
        path: the file.
        text: what is in it.
        section: dotted, or None for keys before the first section.
        key: in that section or in a table inside it.
        nth: of sections that are there more than once (``[[a.b]]``): which a, and which b of that a, from 1.
    """
    current, found = None, 0
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith("["):
            current = stripped.strip("[]").split("]")[0].strip()
            counts = {name: count for name, count in counts.items() if not name.startswith(current + ".")}
            counts[current] = counts.get(current, 0) + 1
        inside = _is_inside(current, section, counts, nth)
        if inside and stripped.startswith("[") and (current == section or not found):
            found = number
        name = stripped.partition("=")[0].strip().strip("\"'")
        if key is not None and inside and (name == key or name.split(".")[0] == key):
            return f"{path}, line {number}"
    return f"{path}, line {found}" if found else str(path)


def _is_inside(current: str | None, section: str | None, counts: dict[str, int], nth: tuple[int, ...]) -> bool:
    if section is None or current is None:
        return section is current
    parts = section.split(".")
    prefixes = [".".join(parts[: end + 1]) for end in range(len(parts))]
    wanted = all(counts.get(prefix, 0) == count for prefix, count in zip(prefixes, nth, strict=False))
    return wanted and (current == section or current.startswith(section + "."))
