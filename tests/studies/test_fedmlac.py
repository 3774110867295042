"""The table on FedMLAC: a fleet whose devices are visited often is judged after some of its rounds."""

import pytest

from studies.fedmlac import runs as study
from studies.fedmlac.calls import visited
from studies.fedmlac.methods import LISTENING, fedmlac
from studies.fedmlac.tables import stopped, stops
from tests.support.tiny_study import rows_of, same_as_tracked, summary_of


def test_rounds_go_on_as_if_nothing_had_been_judged_between_them(bundles):
    bundle, method = bundles["ann3"], fedmlac(0.05, 0.3)
    data = {"source": "synthetic", "clips": 600, "classes": 4, "speakers": 30, "noise": 0.5, "public": 0.2}
    fleet = {"devices": 3, "held_out": 0.4, "local_models": True}
    rounds = {"strategy": method.strategy, "seed": 3, "local": method.settings, "aggregation": dict(method.aggregation)}
    arguments = (data, [bundle, bundle], fleet, rounds | {"evaluate_every": 1})
    often, once = (visited(*arguments, stops=judged, wrong=0.25, listening=LISTENING) for judged in ((1, 3), (3,)))
    assert [entry["accuracy"] for entry in often["rounds"]] == [entry["accuracy"] for entry in once["rounds"]]
    assert often["devices"] == once["devices"]
    assert [entry["round"] for entry in stops(often)] == [1, 3]
    end = stops(often)[-1]
    assert end["local_strangers"] == pytest.approx(
        sum(device["local_strangers"] for device in once["devices"]) / len(once["devices"])
    )
    assert 0.0 <= end["public"] <= 1.0
    assert stopped(often)["public"] == max(entry["public"] for entry in stops(often))


def test_the_tables_are_those_of_the_tracked_results(tmp_path):
    found, by_hand = summary_of(study, tmp_path), {"published", "published-lost", "published-leads", "sizes", "tuning"}
    same_as_tracked("fedmlac", found, by_hand)


def test_methods_stand_side_by_side_and_a_training_that_diverged_guesses(tmp_path):
    def changed(run, found):
        entry = found["devices"][0]
        if run.name == "FedAvg, wrong 50%":
            found["devices"] = [entry | {"local_strangers": 0.2}, entry | {"local_strangers": 0.1}]
        if run.name == "FedMLAC, five networks, clean":
            found["devices"] = [entry | {"local_strangers": 0.3}]
        return found | {"diverged": "so it did", "devices": []} if run.name == "FedOPT, wrong 50%" else found

    rows, spread = rows_of(summary_of(study, tmp_path, changed)), "± 0.7"
    local = rows["local"]
    assert local["clean"] == [*[f"38.5 {spread}"] * 3, f"78.5 {spread}"]
    assert local["wrong 50%"] == ["15.0 ± 0.0", f"38.5 {spread}", "10.0 ± 0.0", f"78.5 {spread}"]
    assert local["30% of the devices in a round, clean"] == [f"38.5 {spread}", "", f"38.5 {spread}", f"78.5 {spread}"]
    assert rows["lost"]["wrong 50%"] == [f"23.5 {spread}", "0.0 ± 0.0", f"28.5 {spread}", "0.0 ± 0.0"]
    assert rows["leads"]["clean"] == ["40.0 ± 0.0"] * 3 + [""]
    assert rows["listening"]["alone"] == ["", *["40.0 ± 0.0", f"38.5 {spread}"] * 2]
    assert rows["five"]["`zero_shot`"] == ["", "60.0 ± 0.0", "55.0 ± 0.0", "", ""]
    assert rows["over-alone"]["LPA over none: five networks, clean"][1] == f"-48.5 {spread}"
    leads = rows["listening-leads"]
    assert [row[0] for row in leads.values()] == ["40.0 ± 0.0", "40.0 ± 0.0", f"6.5 {spread}"]
