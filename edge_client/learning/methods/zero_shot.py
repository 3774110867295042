"""Zero-shot federated learning (Gudur & Perepu 2021, algorithm 1): devices share scores on the public set."""

import functools

from edge_client.learning.methods.local_method import UnsharedMethod
from edge_client.learning.rounds.score_sharing import ScoreSharing
from edge_client.learning.rounds.training_round import TrainingRound
from fleet_protocol.methods.local_methods import ZERO_SHOT as TERMS

_open = functools.partial(TrainingRound, start=ScoreSharing)
METHOD = UnsharedMethod("zero_shot", TERMS.settings, _open, summed=True)
