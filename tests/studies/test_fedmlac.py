"""The table on FedMLAC: a fleet whose devices are visited often is judged after some of its rounds."""

import pytest

from studies.fedmlac import runs as study
from studies.fedmlac.calls import visited
from studies.fedmlac.methods import LISTENING, fedmlac
from studies.fedmlac.tables import stopped, stops
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


def test_the_tables_are_those_of_the_tracked_results(tmp_path):
    found, by_hand = summary_of(study, tmp_path), {"published", "published-lost", "published-leads", "sizes", "tuning"}
    same_as_tracked("fedmlac", found, by_hand)
