"""Uploads of the strategy `prototypes` and the inputs of their aggregation, without any server."""

import numpy as np

from aggregator_server.aggregation.contract import Contribution
from aggregator_server.schemas import RoundRequest
from fleet_protocol.messages.rest import ClassReport, Update
from tests.support import round_inputs
from tests.support.embedded_words import SETTINGS, WORDS, described, embedded_public_set

PUBLIC = embedded_public_set(np.random.default_rng(7))


def upload(number, known=("c0", "c1"), met=(), denied=(), takes=8, said=None, round_id=5):
    """A device's upload with clips of known words, by class, and met sounds, by slot; or what it says of all.

    ``denied``: (class, word that its owner said it is not) pairs, a mean of five clips each.
    """
    rng = np.random.default_rng([number, takes])
    met = dict(met)
    words = [*(WORDS[int(class_id[1:])] for class_id in known), *met.values()]
    arrays = described(words, denied, takes, rng, of_denied=5)
    if said is not None:
        arrays["prototypes"] = np.stack([np.asarray(said, np.float32)[None]] * len(words))
    update = Update(
        round_id=round_id,
        device_id=f"{number:032x}",
        features=SETTINGS.digest,
        public_set="0" * 64,
        classes=known,
        clips=takes * len(words),
        known=known,
        reports=tuple(ClassReport(slot, None, takes) for slot in met),
        negatives=tuple(class_id for class_id, _ in denied),
    )
    return Contribution(update, lambda: arrays)


def inputs(*contributions, aggregation=None, **changes):
    """What a round with these uploads hands to the aggregation; ``aggregation``: settings of its rule."""
    request = RoundRequest("prototypes", aggregation=aggregation or {})
    fields = {"round_id": 5, "public_set": PUBLIC, "consensus": np.zeros((120, 4), np.float32), "model": None}
    return round_inputs.inputs(request, contributions, **(fields | changes))
