"""Zero-shot federated learning with new classes (Gudur & Perepu 2021, algorithm 1): what the aggregator does.

Devices upload scores on the public set, and data impressions of the new sounds that they met. Scores are averaged
label by label; the impressions show which sounds are the same class, and that class joins the public set.
"""

from functools import partial

import numpy as np

from aggregator_server.aggregation.alpha_update import alpha_update
from aggregator_server.aggregation.contract import Contribution, RoundInputs, RoundResult, UploadTerms
from aggregator_server.aggregation.input_bounds import capped_sizes, check_probabilities
from aggregator_server.aggregation.label_wise_beta import DeviceScores, label_wise
from aggregator_server.discovery.new_classes import extend
from aggregator_server.discovery.new_sounds import recognise
from aggregator_server.strategies import private_models
from aggregator_server.strategies.strategy import PrivateWay, Strategy
from aggregator_server.strategies.upload_checks import check_arrays, check_document
from fleet_protocol.messages.rest import Update
from fleet_protocol.numbers.arrays import Floats, Ints
from fleet_protocol.numbers.tensors import Arrays


def check(terms: UploadTerms, update: Update, arrays: Arrays) -> None:
    """Check an upload's document and scores. Raises MalformedUpdateError: they are wrong; says what."""
    check_document(terms, update)
    check_arrays(terms, update, arrays, {"scores": (terms.samples, len(update.classes))})
    check_probabilities("scores", arrays["scores"])


def aggregate(inputs: RoundInputs) -> RoundResult:
    """Combine the uploads of a round (pure: the same inputs give the same result, bit for bit)."""
    public_set = inputs.public_set
    contributions = sorted(inputs.contributions, key=lambda c: c.update.device_id)
    column = {class_id: index for index, class_id in enumerate(public_set.class_ids)}
    cap = float(inputs.plan.aggregation.settings["clips_cap"])
    sizes = capped_sizes(np.array([c.update.clips for c in contributions], np.float64), cap)
    devices = []
    for contribution, clips in zip(contributions, sizes, strict=True):
        columns = np.array([column[name] for name in contribution.update.classes], np.int64)
        scores = partial(_scores, contribution, inputs.consensus, columns, float(clips))
        devices.append(DeviceScores(contribution.update.device_id, columns, scores))
    averaged = label_wise(
        devices,
        public_set.labels,
        public_set.synthetic,
        inputs.consensus,
        normalise=bool(inputs.plan.aggregation.settings["normalise"]),
        above_chance=bool(inputs.plan.aggregation.settings["above_chance"]),
    )
    settled = recognise(inputs, contributions)
    details = {
        "accuracies": averaged.accuracies,
        "accuracy_classes": {device.device_id: len(device.columns) for device in devices},
        "betas": {public_set.class_ids[index]: betas for index, betas in averaged.betas.items()},
        "plain_mean": [public_set.class_ids[index] for index in averaged.plain_mean],
        "discovery": settled.details,
    }
    return RoundResult(
        public_set=settled.public_set,
        consensus=extend(averaged.scores, settled.public_set),
        assignments=settled.assignments,
        details=details,
    )


def _scores(contribution: Contribution, consensus: Floats, columns: Ints, clips: float) -> Floats:
    """Return an upload's scores on top of the fleet's, float32 [samples, its classes]."""
    return alpha_update(contribution.read()["scores"], consensus[:, columns], clips)


STRATEGY = Strategy(
    name="zero_shot",
    local="zero_shot",
    aggregation="label_wise",
    check=check,
    aggregate=aggregate,
    private=PrivateWay(
        check_plan=private_models.check_plan,
        check=private_models.check_scores,
        aggregate=private_models.aggregate_scores,
        settings={"normalise": True},
    ),
    about="Every device trains a network of its own and says how it would name the public recordings. The aggregator "
    "averages these scores, and every device learns from them.",
    cost="Devices of any network take part. Each sends scores of public recordings and descriptions of new sounds, but "
    "no weights. It trains in the round, and once more on the result.",
)
