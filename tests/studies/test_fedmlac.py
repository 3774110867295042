"""The table on FedMLAC: a fleet whose devices are visited often is judged after some of its rounds."""

import pytest

from studies.fedmlac import runs as study
from studies.fedmlac.calls import visited
from studies.fedmlac.methods import LISTENING, fedmlac
from studies.fedmlac.tables import stopped, stops
from studies.render import shown
from tests.support.tiny_study import same_as_tracked, summary_of


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


def rows_of(found, table):
    """A table's rows by their first cells, as they are shown."""
    return {row[0]: [shown(cell) for cell in row[1:]] for row in found.tables[table].rows}


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

    found, spread = summary_of(study, tmp_path, changed), "± 0.7"
    local = rows_of(found, "local")
    assert local["clean"] == [*[f"38.5 {spread}"] * 3, f"78.5 {spread}"]
    assert local["wrong 50%"] == ["15.0 ± 0.0", f"38.5 {spread}", "10.0 ± 0.0", f"78.5 {spread}"]
    assert local["30% of the devices in a round, clean"] == [f"38.5 {spread}", "", f"38.5 {spread}", f"78.5 {spread}"]
    assert rows_of(found, "lost")["wrong 50%"] == [f"23.5 {spread}", "0.0 ± 0.0", f"28.5 {spread}", "0.0 ± 0.0"]
    assert rows_of(found, "leads")["clean"] == ["40.0 ± 0.0"] * 3 + [""]
    assert rows_of(found, "listening")["alone"] == ["", *["40.0 ± 0.0", f"38.5 {spread}"] * 2]
    assert rows_of(found, "five")["`zero_shot`"] == ["", "60.0 ± 0.0", "55.0 ± 0.0", "", ""]
    assert rows_of(found, "over-alone")["LPA over none: five networks, clean"][1] == f"-48.5 {spread}"
    leads = rows_of(found, "listening-leads")
    assert [row[0] for row in leads.values()] == ["40.0 ± 0.0", "40.0 ± 0.0", f"6.5 {spread}"]


def test_where_devices_are_visited_often_the_end_stands_beside_where_a_server_would_have_stopped(tmp_path):
    def learnt_by_heart(run, found):
        if not run.name.startswith("visited often: Fed") or "wrong" not in run.name or run.seed == 100:
            return found
        early, late = (0.1, 0.5) if "FedMLAC" in run.name else (0.6, 0.3)
        keys = ("public", "local_strangers", "local_own", "listening_own", "listening_strangers")
        rounds = [{"round": n, "accuracy": v} | dict.fromkeys(keys, v) for n, v in ((20, early), (40, late))]
        return {"rounds": rounds, "devices": [entry | {"local_strangers": late} for entry in found["devices"]]}

    found = summary_of(study, tmp_path, learnt_by_heart)
    low, high = ["30.0 ± 0.0"] * 3, ["60.0 ± 0.0"] * 3
    assert rows_of(found, "often")["wrong 50%, FedAvg"] == [*low, "20 and 20", *high]
    assert rows_of(found, "often-visits")["wrong 50%, FedMLAC"] == ["10.0 ± 0.0", "", "", ""]
    assert rows_of(found, "often-listening")["FedOPT, stopped"] == ["", "", *high[:2]]
    assert rows_of(found, "leads")["visited often, wrong 50%"] == ["20.0 ± 0.0", "", "20.0 ± 0.0", "20.0"]
