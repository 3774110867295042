"""The pictures of the papers' tables: what they show is what the figures say, and equal figures make equal bytes."""

import re

import pytest

from studies.drawn import PICTURES, pictures_of
from studies.pictures import draw_all, error, over_clips, over_rounds, over_values, share

X, Y = ("x", share("accuracy")), ("y", share("accuracy"))


def rounds(*accuracies):
    """Figures of a run that was tested in every second round."""
    tested = {2 * number: accuracy for number, accuracy in enumerate(accuracies, start=1)}
    entries = [{"round": number} | ({"accuracy": tested[number]} if number in tested else {}) for number in range(1, 9)]
    return {"rounds": entries, "devices": []}


def lines(picture, figures):
    """The lines of every panel: their points by their labels."""
    axes = picture.draw(figures).axes
    return [
        {line.get_label(): [tuple(point) for point in line.get_xydata()] for line in panel.get_lines()}
        for panel in axes
    ]


def test_a_curve_is_the_mean_over_seeds_of_the_rounds_that_all_have():
    picture = over_rounds("a", "A.", {"clean": {"FedAvg": X, "FedMLAC": Y}, "noise": {"FedAvg": Y}}, "accuracy, %")
    figures = {"x": [rounds(0.2, 0.4, 0.6), rounds(0.4, 0.6)], "y": [rounds(0.5)]}
    clean, noise = lines(picture, figures)
    assert clean == {"FedAvg": [(2, pytest.approx(30)), (4, pytest.approx(50))], "FedMLAC": [(2, 50)]}
    assert noise == {"FedAvg": [(2, 50)]}
    assert picture.runs == ["x", "y", "y"]


def test_a_device_is_a_mark_at_its_clips_and_its_error():
    devices = [{"clips": 10, "global": 0.5, "own": None}, {"clips": 40, "global": 0.75, "own": 0.9}]
    picture = over_clips(
        "a", "A.", {"": {"global": ("x", error("global")), "personal": ("x", error("own"))}}, "error, %"
    )
    (panel,) = picture.draw({"x": [{"devices": devices}]}).axes
    marks = [found.get_offsets().tolist() for found in panel.collections]
    assert marks == [[[10, 50], [40, 25]], [[40, pytest.approx(10)]]]
    (means,) = lines(picture, {"x": [{"devices": devices}]})
    assert means == {"global": [(10, 50), (40, 25)], "personal": [(40, pytest.approx(10))]}


def test_values_of_a_setting_stand_side_by_side():
    picture = over_values(
        "a", "A.", {"mean": {8.0: "b", 0.5: "a"}}, lambda figures, run: figures[run][0]["loss"], "strength", "loss"
    )
    figures = {"a": [{"loss": 3.0}], "b": [{"loss": 5.0}]}
    assert lines(picture, figures) == [{"mean": [(0, 3), (1, 5)]}]
    (panel,) = picture.draw(figures).axes
    assert [label.get_text() for label in panel.get_xticklabels()] == ["0.5", "8"]


def test_equal_figures_make_equal_bytes_and_a_picture_without_its_runs_is_not_drawn(tmp_path):
    drawn = over_rounds("drawn", "A.", {"clean": {"FedAvg": X, "FedMLAC": Y}}, "accuracy, %")
    left_out = over_rounds("left-out", "A.", {"clean": {"FedAvg": X, "other": ("z", share("accuracy"))}}, "accuracy, %")
    figures = {"x": [rounds(0.2, 0.4), rounds(0.4, 0.5)], "y": [rounds(0.5, 0.6)]}
    for folder in ("first", "second"):
        draw_all([drawn, left_out], figures, tmp_path / folder)
    assert [path.name for path in (tmp_path / "first").iterdir()] == ["results-drawn.svg"]
    first, second = ((tmp_path / folder / "results-drawn.svg").read_bytes() for folder in ("first", "second"))
    assert first == second
    assert {"FedAvg", "FedMLAC", "clean", "round"} <= set(re.findall(r">([^<>]+)</text>", first.decode()))
    assert b"fill: #ffffff" in first  # the page behind may be dark


def test_every_picture_can_be_drawn_from_what_runs_keep(tmp_path):
    users = [{"local_accuracy": 80.0, "global_accuracy": 90.0}, {"local_accuracy": None}]
    entries = [{"round": number, "accuracy": 0.5, "development": 0.2, "users": users} for number in (1, 2)]
    devices = [
        {"clips": size, "utterances": size, "global": 0.5, "personal": 0.6, "local": 0.3, "group_balanced": 0.2}
        for size in (20, 40, 60)
    ]
    pictures = pictures_of(PICTURES)
    figures = {run: [{"rounds": entries, "devices": devices}] for picture in pictures for run in picture.runs}
    draw_all(pictures, figures, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {picture.file(tmp_path).name for picture in pictures}
    assert len(pictures) == len({picture.name for picture in pictures})
    zero_shot = pictures_of(["gudur"])[0]
    assert lines(zero_shot, figures)[0] == {"the fleet's scores": [(1, 90), (2, 90)], "own models": [(1, 80), (2, 80)]}
