"""The report: one HTML page that needs nothing from anywhere else."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from benchmarks.demo.figures import curves, impression_planes, similarities
from benchmarks.demo.result import Result
from benchmarks.demo.tables import (
    Table,
    accuracy_table,
    course_table,
    discovery_table,
    listening_table,
    recognition_table,
    round_table,
)
from fleet_protocol.atomic_files import write_durably

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Auricle: three devices learn sounds together</title>
<style>
body {{ margin: 2rem auto; max-width: 68rem; padding: 0 1rem; background: #fff; color: #1f2933;
  font: 15px/1.5 system-ui, sans-serif; }}
h1 {{ font-size: 1.6rem; margin-bottom: .2rem; }}
h2 {{ font-size: 1.15rem; margin: 2.2rem 0 .4rem; }}
p {{ max-width: 52rem; }}
.note {{ color: #52606d; font-size: .88rem; }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .3rem .8rem; border-bottom: 1px solid #e4e7eb; text-align: right; white-space: nowrap; }}
th {{ color: #52606d; font-weight: 600; font-size: .85rem; vertical-align: bottom; }}
td.left, th.left {{ text-align: left; }}
tr.average td {{ font-weight: 600; border-top: 2px solid #9aa5b1; }}
svg {{ max-width: 100%; height: auto; }}
</style>
</head>
<body>
<h1>Three devices learn sounds together</h1>
{body}
</body>
</html>
"""


def write_report(path: Path, results: Sequence[Result]) -> None:
    """Write the page: both fleets against one another, and then each in detail."""
    parts = [_table(table(results)) for table in (listening_table, discovery_table, recognition_table)]
    for result in results:
        parts += _details(result)
    write_durably(path, _PAGE.format(body="\n".join(parts)).encode(), mode=0o644)


def _details(result: Result) -> list[str]:
    users, key = [user.name for user in result.users], result.kind.key
    parts = [
        f"<h2>{html.escape(f'{key}: {result.kind.title}')}</h2>",
        _paragraphs(result.setting),
        _section(f"{key}: accuracy by round", curves(result.rounds, users, result.appeared)),
    ]
    if result.kind.strategy is not None:  # else there is no consensus
        parts += [_table(accuracy_table(result)), _table(course_table(result))]
    if result.impressions:
        text = (
            "What the aggregator got of the sounds in the rounds with new sounds: data impressions (published), or "
            "the mean embedding of each sound (base), less each device's mean over the classes that it knew. Small "
            "marks are impressions, large ones means; shapes are devices, colours sounds. First two principal "
            "components."
        )
        parts.append(
            _section(f"{key}: uploaded descriptions in two dimensions", impression_planes(result.impressions), text)
        )
    text = (
        "Cosine between the weights that lead into two classes, in every device's last layer at the end (equation 1 "
        "of the paper): which sounds a device holds to be alike. From it the impressions' soft labels are drawn."
    )
    parts.append(_section(f"{key}: class similarity", similarities(result.similarities), text))
    parts.append(_table(round_table(result)))
    return parts


def _paragraphs(lines: tuple[str, ...]) -> str:
    return "\n".join(f"<p>{html.escape(line)}</p>" for line in lines)


def _section(title: str, picture: str, text: str = "") -> str:
    note = f'<p class="note">{html.escape(text)}</p>' if text else ""
    return f"<h2>{html.escape(title)}</h2>\n{note}\n{picture}"


def _table(table: Table) -> str:
    left = ' class="left"'

    def row(cells: tuple[str, ...], tag: str) -> str:
        kind = ' class="average"' if cells[0] == "average" else ""
        texts = (
            f"<{tag}{left if index in table.left else ''}>{html.escape(cell)}</{tag}>"
            for index, cell in enumerate(cells)
        )
        return f"<tr{kind}>{''.join(texts)}</tr>"

    head, body = row(table.head, "th"), "\n".join(row(cells, "td") for cells in table.rows)
    note = f'<p class="note">{html.escape(table.note)}</p>' if table.note else ""
    markup = f'<div class="scroll"><table><thead>{head}</thead>\n<tbody>{body}</tbody></table></div>'
    return f"<h2>{html.escape(table.title)}</h2>\n{markup}\n{note}"
