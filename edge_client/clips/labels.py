"""The owner's words for sounds: which ones can be a label, and the folder of what is no sound in particular."""

from __future__ import annotations

import unicodedata

from edge_client.errors import ClipError

# The folder of what the room sounds like when nothing happens, from which the model learns to stay undecided. It is no
# label: whoever lists labels leaves out every name that starts like it.
BACKGROUND = "_background_"
# The folder of clips that are not a label's although they resemble it, in a folder for each label.
REJECTED = "_not_"


def rejected(label: str) -> str:
    """Return the folder, below the store's, of clips that are not a label's although they resemble it."""
    return f"{REJECTED}/{label}"


def is_label(folder: str) -> bool:
    """Return whether a folder below the store's is a label's."""
    return not folder.startswith(("_", "."))


def check_folder(folder: str) -> str:
    """Return a folder below the store's as it is stored: a label's, or one of those that are reserved.

    Raises:
        ClipError: the label cannot be one; says why.
    """
    if folder == BACKGROUND:
        return folder
    kind, _, label = folder.partition("/")
    return rejected(check_label(label)) if kind == REJECTED else check_label(folder)


# The aggregator takes names of up to 200 characters; a folder's name must fit 255 bytes.
_LONGEST, _LONGEST_BYTES = 100, 240


def check_label(label: str) -> str:
    """Return a label as it is stored: composed (NFC), so that the same word typed on two keyboards is one label.

    Raises:
        ClipError: it cannot be a label; says why.
    """
    composed = unicodedata.normalize("NFC", label)
    problems = {
        "it must not be empty": not composed,
        "it must not start or end with a blank": composed != composed.strip(),
        f"it must have at most {_LONGEST} characters": len(composed) > _LONGEST
        or len(composed.encode(errors="replace")) > _LONGEST_BYTES,
        "it must not contain / or \\": bool(set(composed) & set("/\\")),
        "it must not start with _ or .": composed.startswith(("_", ".")),
        "it must be printable": not composed.isprintable(),
    }
    for problem, found in problems.items():
        if found:
            raise ClipError(f"{label[:200]!r} cannot be a label: {problem}")
    return composed
