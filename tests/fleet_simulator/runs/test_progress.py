"""What a run shows: a line for each round, at most one a second, and the last one always."""

import io

from fleet_simulator.runs.progress import Lines


def test_lines_say_accuracy_speed_and_time_left_and_are_few():
    out = io.StringIO()
    lines = Lines(out)
    lines.begin(1000, 3)
    first = lines.describe({"round": 900, "devices": 50, "loss": 1.25, "accuracy": 0.5}, 2.0)
    assert first == "round 900/1000  accuracy  50.0 %  loss 1.250  25 devices/s  left 0:03:20"
    for number in range(4, 1001):
        lines.round_done({"round": number, "devices": 10, "loss": 1.0}, 0.001)
    shown = out.getvalue().splitlines()
    assert shown[0] == "going on after round 3 of 1000"
    assert shown[1].startswith("round 4/1000  accuracy  50.0 %")  # as last measured
    assert shown[-1].startswith("round 1000/1000")
    assert len(shown) < 10
