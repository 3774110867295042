"""Speech recognition by CTC among ten devices of unequal data: the task of Xu et al. 2025 itself.

Devices' speakers are dealt 5 : 3 : 2 with 20, 40 and 60 of them, as published. FedAvg draws devices evenly, FedProx by
their data; dynamic selection takes the place of either. Devices then fine-tune what that came to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from fleet_protocol.messages import Choice
from studies.report import (
    SMOOTHED,
    Results,
    claims_table,
    markdown_table,
    mean_and_spread,
)
from studies.run import Call, Run
from studies.scale import Scale
from studies.selection.clips import FRACTION, HOURS
from studies.selection.personal import PUBLISHED
from studies.speech.claims import claims, short
from studies.speech.data import MANY_CLIPS, Counts
from studies.speech.figures import (
    BASELINES,
    DRAWN_FLEETS,
    GROUPS,
    MU,
    SAVED,
    SETTINGS,
    compared,
    converged,
    development,
    fewer,
    group_errors,
    own,
    published_savings,
    saved_converging,
    savings,
    speech,
    tested,
    with_alone,
)
from studies.speech.fleet import Method, Personal
from studies.speech.runs import centrally, draws, shared_model, without_fleet
from studies.speech.start import Pretraining

TITLE = "Speech recognition by CTC among devices of unequal data (Xu et al. 2025)"
PAPER = "Xu et al. 2025, CTC"

RATE, PERSONAL_RATE, ALONE_RATE = 0.0007, 0.0001, 0.0007
PERSONAL = Personal(PERSONAL_RATE, 5, {"groups": 3, "most_rounds": 5, "least_rounds": 1})
PASSES = 15  # without a fleet: as many as a device has in fifty rounds of three devices of ten
COUNTS = Counts(train=1, development=(40, 2), test=3)
PRETRAINING = Pretraining()
NETWORK = ("--features", "utterance", "--width", "0.35", "--batch", "8")
SEEDS = (1, 2, 3)


def runs(scale: Scale) -> list[Run]:
    """Return a run of each method and one of devices alone for every seed, and one of draws without training."""
    shared: dict[str, Any] = {
        "archive": scale.data("gsc_v2_logmel_jpg.zip"),
        "bundle": scale.bundles(["dcnn_ctc"], *NETWORK)["dcnn_ctc"],
        "folder": scale.output / "bundles",
        "counts": COUNTS,
        "pretraining": PRETRAINING,
    }
    found = [_draws("published hours", HOURS), _draws("equal speakers", [float(one) for one in COUNTS.devices])]
    for seed in SEEDS:
        given = shared | {"seed": seed}
        without = given | {"rate": ALONE_RATE, "passes": PASSES}
        found.append(Run("alone", seed, Call(without_fleet, without), 80, f"speech {seed}"))
        if seed == SEEDS[0] or scale.full:
            found.append(Run("central", seed, Call(centrally, without | {"rate": RATE}), 80, f"speech {seed}"))
        for setting in SETTINGS if scale.full else SETTINGS[:1]:
            found += _fleets(given, setting)
    return found


def _fleets(given: Mapping[str, Any], setting: tuple[int, int]) -> list[Run]:
    """Return the runs of one deal by all four methods."""
    (switch, rounds), seed, found = setting, given["seed"], list[Run]()
    for baseline in BASELINES:
        for name, dynamic in ((baseline, False), (f"{baseline}, dynamic", True)):
            arguments = {
                **given,
                "method": method_of(baseline, switch if dynamic else 0),
                "rounds": rounds,
                "personal": PERSONAL if dynamic and baseline == "FedAvg" and setting == SETTINGS[0] else None,
            }
            name = f"{name}, {switch}/{rounds}"
            found.append(Run(name, seed, Call(shared_model, arguments), 1.6 * rounds, f"speech {seed}"))
    return found


def method_of(baseline: str, switch_round: int = 0, rate: float = RATE) -> Method:
    """Return a baseline with its own selection; or dynamic selection, where there is an R."""
    settings: dict[str, Any] = {"fraction": FRACTION}
    choice = Choice(BASELINES[baseline], settings)
    if switch_round:
        choice = Choice("dynamic", settings | {"switch_round": switch_round})
    return Method(choice, rate) if baseline == "FedAvg" else Method(choice, rate, proximal=MU, by_size=False)


def _draws(name: str, sizes: Sequence[float]) -> Run:
    arguments = {
        "sizes": [100 * size for size in sizes],
        "settings": SETTINGS,
        "fraction": FRACTION,
        "published": SAVED,
        "seeds": DRAWN_FLEETS,
    }
    return Run(f"draws, {name}", 0, Call(draws, arguments), 30)


def section(results: Results) -> str:
    """Return the tables, and what did not hold."""
    setting = "{}/{}".format(*SETTINGS[0])
    return "\n".join(
        [
            short(results, setting),
            _what(results),
            "",
            "### Global models: character error rates, %",
            _error_table(results, setting),
            "### Training until the end and until convergence",
            _time_table(results),
            _TIME_SAYS,
            "### Data trained on, by draws alone",
            _draws_table(results),
            _DRAWS_SAY,
            "",
            "### Models of the devices: character error rates on their own tests, %",
            _devices_table(results, setting),
            _devices_say(results, setting),
            "",
            claims_table(claims(results, setting)),
        ]
    )


def _what(results: Results) -> str:
    seeds = results.seeds("alone")
    seconds = results.figures("alone")[0]["seconds"]
    return (
        f"Phrases of three or four words (digits, commands, or both) of one speaker, made of Speech Commands' log-mel "
        f"pictures; `dcnn_ctc` at 0.35 of the published width writes letters. Ten devices have 20, 40 or 60 "
        f"speakers, as published, of {MANY_CLIPS} recordings or more each, and {min(seconds) / 60:.1f} to "
        f"{max(seconds) / 60:.1f} minutes of speech to train on (published: 7 to 24 hours of Mandarin). A pass is over "
        f"one phrase of each speaker, made anew of these recordings; {COUNTS.test} phrases of each, of "
        f"three tenths of the recordings, are the device's own test. {COUNTS.development[0]} other speakers are the "
        f"server's development set, {COUNTS.server_test[0]} its test, as published; speakers never heard are those. "
        f"The start was trained on {PRETRAINING.speakers} further speakers, who have fewer recordings each, about as "
        f"many together (published: 125 hours, and 126 on the devices), at other speeds, with bands moved and hidden: "
        f"{PRETRAINING.aligned} passes with letters at their places, {PRETRAINING.passes} of CTC by Adam, "
        f"{PRETRAINING.settled} by momentum SGD. Three devices in a round, one pass, R of "
        f"{SETTINGS[0][0]} in {SETTINGS[0][1]} rounds; mu {MU:g}. FedProx averages "
        f"plainly, as published. Deals {', '.join(map(str, seeds))}: each "
        f"draws 400 of the same 556 speakers, the tuning's too.\n\n{TUNING}"
    )


TUNING = """Tuning was by another deal (seed 101), with a quarter of the published width and, in a pass, two phrases
of two or three words of each speaker: three rates for each method (0.0003, 0.0007, 0.0015), eight rounds each (R =
4), by the error on the development set. Means of the last four rounds: FedAvg 21.2, 20.9, 20.8 %, with dynamic
selection 21.0, 21.0, 20.7 %; FedProx 20.7, 20.7, 20.6 %, with dynamic selection 21.0, 20.6, 20.6 %. The differences
are within the spread, so all have the middle one. On phrases of recordings that it had trained on, FedAvg's model of
24 rounds made 23.1 % errors, no fewer than on others (19.9 %; three devices): at that width it underfits, so the
width is 0.35 here. The start's steps by momentum SGD had 0.0015 at first, which raised its error on the development
set from 21.7 to 24.3 %, so they have 0.0003 now. Alone and in one place have the fleets' rate. Fine-tuning was first
tuned at the narrower width, too; its rate, 0.0003, left devices of deals 1 and 2 no better than the global model. So
it was tuned again at this one on deal 101, after 20 rounds, by eight passes on five of the devices, and those runs
were made again: with 0.00003, 0.0001, 0.0003 and 0.001 errors are 14.6, 14.7, 14.9 and 18.0 % on their tests, after
15.4 % before, and 12.8, 12.2, 12.3 and 14.3 % on phrases held out, after 12.9 %. It has 0.0001, the best on both
together. On recordings trained on, errors fall from 15.8 to 15.1 % with it: eight passes of a rate that does no harm
learn little."""
_TIME_SAYS = f"""The paper's time is its machine's; ours is the speech trained on, which no other program changes.
Convergence: the error rate on the development set, mean of {SMOOTHED} rounds, is first within 3 % of its end. The paper
compares that with all rounds of FedAvg, which does not converge there, and with FedProx at its convergence. To the same
error: both until the worse one's end.
"""
_DRAWS_SAY = f"""{DRAWN_FLEETS} fleets each, nothing is trained: what a round costs depends on the draw alone.
Published hours: the devices of the paper's table 2; equal speakers: 20, 40 and 60, exactly 1 : 2 : 3."""


def _error_table(results: Results, setting: str) -> str:
    header = ["model", "server's test", "server's development", "devices' own tests", "processor s"]
    server = ("server_test", "development")
    rows: list[list[Any]] = [
        [
            "start (public speech only)",
            *(results.cell("alone", itemgetter(part)) for part in server),
            results.cell("alone", lambda one: own(one, "start")),
            "",
        ],
        [
            f"alone, {PASSES} passes",
            "",
            "",
            results.cell("alone", lambda one: own(one, "alone")),
            results.cell("alone", itemgetter("processor_s"), 1, 0),
        ],
        [
            f"all devices' recordings in one place, {PASSES} passes (deal {SEEDS[0]})",
            *(results.cell("central", itemgetter(part)) for part in server),
            results.cell("central", lambda one: own(one, "global")),
            results.cell("central", itemgetter("processor_s"), 1, 0),
        ],
    ]
    rows += [
        [
            name,
            results.cell(name, itemgetter("server_test")),
            results.cell(name, development),
            results.cell(name, lambda one: own(one, "global")),
            results.cell(name, lambda one: sum(entry["processor_s"] for entry in one["rounds"]), 1, 0),
        ]
        for name in _methods(setting)
    ]
    return markdown_table(header, rows)


def _methods(setting: str) -> list[str]:
    return [name for baseline in BASELINES for name in (f"{baseline}, {setting}", f"{baseline}, dynamic, {setting}")]


def _time_table(results: Results) -> str:
    header = [
        "method",
        "speech of all rounds, min",
        "saved, %",
        "published",
        "rounds to convergence",
        "speech to it, min",
        "saved against all of the baseline's, %",
        "published",
        "saved, both to convergence, %",
        "published",
        "saved to the same error, %",
    ]
    rows: list[list[Any]] = []
    for baseline, setting in compared(results):
        base, other = f"{baseline}, {setting}", f"{baseline}, dynamic, {setting}"
        whole, stop, same = (mean_and_spread(values) for values in savings(results, base, other))
        itself = mean_and_spread(savings(results, base, base)[1])
        theirs = published_savings(baseline, setting)
        ends = (
            (base, ("", "", itself, "", "", "", "")),
            (
                other,
                (
                    whole,
                    theirs[0],
                    stop,
                    theirs[1],
                    mean_and_spread(saved_converging(results, base, other)),
                    theirs[2],
                    same,
                ),
            ),
        )
        for name, cells in ends:
            rows.append(
                [
                    name,
                    results.cell(name, speech, 1 / 60),
                    *cells[:2],
                    results.cell(name, lambda one: converged(one)[0], 1, 0),
                    results.cell(name, lambda one: converged(one)[1], 1 / 60),
                    *cells[2:],
                ]
            )
    return markdown_table(header, rows)


def _draws_table(results: Results) -> str:
    header = ["R / rounds", "published", *(f"{who}: {what}" for who in _DRAWN for what in _DRAWN_FIGURES)]
    rows = []
    for name, saved in SAVED.items():
        cells = []
        for who in _DRAWN:
            one = results.figures(f"draws, {who}")[0][name]
            cells += [
                f"{one['mean']:.1f} ± {one['spread']:.1f}",
                f"{100 * one['share']:.0f}",
                f"{one['mean_prox']:.1f} ± {one['spread_prox']:.1f}",
            ]
        rows.append([name, saved, *cells])
    return markdown_table(header, rows)


_DRAWN = ("published hours", "equal speakers")
_DRAWN_FIGURES = ("saved, %", "fleets that save as much as published, %", "saved against a draw by size, %")


def _devices_table(results: Results, setting: str) -> str:
    header = [
        "devices",
        "start",
        "alone",
        "global",
        "traditional",
        "group-balanced",
        "fewer errors than global, %",
        "listens with",
        "published: global, traditional, theirs",
    ]
    name = f"FedAvg, dynamic, {setting}"
    rows = []
    for group, label in enumerate((*GROUPS, "all")):
        wanted = group if group < len(GROUPS) else None
        cells = [
            mean_and_spread(group_errors(results, run, model, wanted))
            for run, model in (
                ("alone", "start"),
                ("alone", "alone"),
                (name, "global"),
                (name, "local"),
                (name, "group_balanced"),
            )
        ]
        listening = mean_and_spread(group_errors(results, name, "listening", wanted))
        text = " / ".join(f"{errors[group]:.2f}" for errors in PUBLISHED.values())
        rows.append([label, *cells, f"{fewer(results, name, 'group_balanced', wanted):.1f}", listening, text])
    return markdown_table(header, rows)


def _devices_say(results: Results, setting: str) -> str:
    name = f"FedAvg, dynamic, {setting}"
    devices = with_alone(results, name)
    worse = sum(entry["listening"] > entry["alone"] for entry in devices)
    strangers, heard, own_heard = (
        results.cell(name, partial(own, model=model)) for model in ("strangers", "global_heard", "group_balanced_heard")
    )
    return (
        "The global model is FedAvg's with dynamic selection. A device listens with the group-balanced model, or with "
        "the global one where that makes fewer errors on phrases of recordings held out for this (a seventh of its "
        f"own; nothing else trains on them). What devices listen with makes errors of {strangers} % on the server's "
        f"test, people never heard (the global model: {results.cell(name, tested)} %); {worse} of {len(devices)} "
        f"devices are worse on their own test than alone. On phrases of recordings that it trains on, a device's error "
        f"is {heard} % with the global and {own_heard} % with the group-balanced model."
    )
