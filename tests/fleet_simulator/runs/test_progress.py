"""What a run shows: a line for each round."""

import io

from fleet_simulator.runs.progress import Lines


def test_a_line_says_accuracy_speed_and_time_left():
    lines = Lines(io.StringIO())
    lines.begin(101, 0)
    first = lines.describe({"round": 1, "devices": 50, "loss": 1.25, "accuracy": 0.5}, 2.0)
    assert first == "round 1/101  accuracy  50.0 %  loss 1.250  25 devices/s  left 0:03:20"
    assert "accuracy  50.0 %" in lines.describe({"round": 2, "devices": 50, "loss": 1.0}, 2.0)  # as last measured


def test_lines_are_few_and_the_last_one_is_there():
    out = io.StringIO()
    lines = Lines(out)
    lines.begin(1000, 3)
    for number in range(4, 1001):
        lines.devices_done(5, 10)
        lines.round_done({"round": number, "devices": 10, "loss": 1.0}, 0.001)
    shown = out.getvalue().splitlines()
    assert shown[0] == "going on after round 3 of 1000"
    assert shown[1].startswith("round 4/1000")
    assert shown[-1].startswith("round 1000/1000")
    assert len(shown) < 10
