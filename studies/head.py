"""The first part of docs/results.md: how to read it, all claims in one table, and the pictures.

The claims are read from the text of the sections, so that a command for one table renews them for all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from studies.in_short import in_short_of
from studies.report import CLAIM_COLUMNS, Claim, claims_of
from studies.scale import Scale

CLAIMS, PICTURES = "## All claims", "## Pictures"
HEADINGS = (CLAIMS, PICTURES)
"""Headings of the parts that :func:`head` writes; all others are of tables."""

_HOW_TO_READ = """\
Auricle implements the methods of four papers ([methods.md](methods.md) cites and explains them). This page says what
became of their claims, and of our own, on real recordings.

- **In five minutes**: read [the papers in short](#all-claims), the claims below that you care about, and the pictures.
  The link of a row leads to the section that measured it. A section has the sizes, the settings, every figure and its
  limits.
- **Reproduced** is `yes` where our runs show what the paper says, by the rule that the section states. It is `in part`
  where some of the settings show it, and `no` where none does. Then the last column gives the reason, and the run that
  shows it. A figure behind the published one stands here as it is.
- **Published, ours**: the papers' fleets are larger, and some of their recordings are not public. Ours are what two
  cores compute in about an hour for each table. Each section has the paper's sizes beside ours.
- **Two judges**: a method is judged by its paper's own measure, and by the model that a device listens with: on clips
  of its own that it did not train on, and on strangers, people whom no device has heard. Beside it stand the models
  that a device has without a fleet: trained on its own clips (alone), or on the public clips (public only).
- **Settings** were chosen on tuning seeds. The figures are of other seeds. A section names both, and the trials that
  each method had.
- **Figures** are means over seeds. Behind ± stands the standard deviation over them.

[simulator.md](simulator.md) says how a fleet is run."""


def head(
    sections: Mapping[str, str], papers: Mapping[str, str], pictures: Sequence[tuple[str, Path]], scale: Scale
) -> str:
    """Return the first part of the document.

    Args:
        sections: texts by their titles, in the document's order.
        papers: whose claims a section judges, by its title.
        pictures: what each shows, and its path relative to the document.
        scale: of the sections.
    """
    lines = [
        "# The papers' claims on real data",
        _HOW_TO_READ,
        "",
        f"Scale: {scale.name}. `{scale.command}` writes this page; what is changed here by hand is lost with its next "
        "run.",
        "",
        CLAIMS,
        _all_claims(sections, papers),
    ]
    if pictures:
        lines += [PICTURES, *(f"![{shows}]({path.as_posix()})\n\n{shows}\n" for shows, path in pictures)]
    return "\n".join(lines)


def anchor(title: str) -> str:
    """Return the fragment under which a heading is found."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _all_claims(sections: Mapping[str, str], papers: Mapping[str, str]) -> str:
    by_title = {title: claims for title, text in sections.items() if (claims := claims_of(text))}
    if not by_title:
        return "None of the sections has claims yet.\n"
    links = {title: f"[{papers.get(title, title)}](#{anchor(title)})" for title in by_title}
    summary = [["paper", "yes", "in part", "no", "in short"], ["---", "---:", "---:", "---:", "---"]]
    rows = [["paper", *CLAIM_COLUMNS], ["---"] * (1 + len(CLAIM_COLUMNS))]
    for title, claims in by_title.items():
        summary.append([links[title], *_counts(claims), in_short_of(sections[title])])
        rows += [[links[title], one.claim, one.published, one.ours, one.reproduced, one.why] for one in claims]
    summary.append(["all", *_counts([claim for claims in by_title.values() for claim in claims]), ""])
    return "\n".join([*map(_line, summary), "", *map(_line, rows)]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _counts(claims: Sequence[Claim]) -> list[str]:
    """Return how many claims are reproduced, in part, and not."""
    said = [claim.reproduced.strip("* ").lower() for claim in claims]
    yes, no = said.count("yes"), said.count("no")
    return [str(yes), str(len(said) - yes - no), str(no)]
