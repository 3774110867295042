"""Ten devices that learn to write down speech together, in the simulator's loop of rounds: transcripts are the labels.

Selection, aggregation and the groups of personalisation are the aggregator's own code, the training is the device's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from aggregator_server.aggregation.contract import Contribution, RoundResult
from aggregator_server.strategies.plans import FleetKind, complete
from aggregator_server.strategies.weight_sharing import PREFIX
from edge_client.learning.sgd import Optimiser
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import Choice, ClassInfo, Update, Work
from fleet_protocol.methods.group_balanced import schedule
from fleet_protocol.numbers.arrays import Array, Floats
from fleet_protocol.numbers.tensors import Arrays
from fleet_simulator.experiment.sections import DataSection, Experiment, FleetSection, ModelSection, RoundsSection
from fleet_simulator.simulation.aggregator import FleetState, Uploads
from fleet_simulator.simulation.federation import Devices, Federation
from fleet_simulator.simulation.tasks import device_id
from studies.speech.ctc import character_error_rate, greedy, indices, text_of
from studies.speech.data import Deal, Utterances, Word, joined, phrases
from studies.speech.training import Transcriber, train_epoch

_GLOBAL, _GROUPS, _LOCAL, _CENTRAL, _HEARD = 1, 2, 3, 4, 5  # what a random order is for


@dataclass(frozen=True)
class Method:
    """How the global model is trained."""

    selection: Choice  # of a round's devices
    rate: float  # step size of momentum SGD on the devices
    proximal: float = 0.0  # FedProx' mu
    # whether the mean of the uploads is weighted by the devices' utterances. FedProx' is not, as published.
    by_size: bool = True


@dataclass(frozen=True)
class Personal:
    """How devices fine-tune the global model."""

    rate: float  # step size
    passes: int  # over phrases of the device's own recordings, after its group's rounds
    groups: Mapping[str, Any]  # settings of ``group_balanced``


@dataclass(frozen=True)
class Part:
    """Utterances as a model takes them."""

    x: Floats  # normalised features, float32 [utterances, frames, bands]
    texts: tuple[str, ...]  # what is said
    transcripts: list[Array]  # the same as outputs of the head
    seconds: float  # of speech


class SpeechExperiment(Experiment):
    """Rounds of a shared model that is no file, and whose outputs are characters."""

    kind = FleetKind(embeddings=False, shares_network=True)
    bundles = ()


class SpeechFleet(Devices):
    """One deal of speakers, and the model that its devices train.

    A pass is over phrases that are made anew of the device's recordings, a fixed number of each speaker.

    Attributes:
        sizes: utterances in a pass of each device.
        start: the weights before the first round.
    """

    def __init__(self, model: Transcriber, deal: Deal, each: int, seed: int) -> None:
        """Take the model's weights as the start; ``each``: phrases of each speaker in a pass."""
        self.model, self.seed, self.start = model, seed, model.get_weights()
        self._recordings, self._each = deal.train, each
        self.held_out = [self._part(part) for part in deal.held_out]
        self.tests = [self._part(part) for part in deal.test]
        self.development, self.server_test = self._part(deal.development), self._part(deal.server_test)
        self.sizes = [each * len(speakers) for speakers in deal.train]
        self.manifest, settings = model.manifest, model.manifest.feature_settings
        self.clips = np.array(self.sizes)
        outputs = tuple(ClassInfo(str(output), str(output)) for output in range(model.manifest.capacity))
        nothing = np.zeros((0, *settings.shape), np.float32), np.zeros(0, np.int64), np.zeros(0, np.bool_)
        self._public_set = PublicSet(settings, outputs, *nothing)

    def _part(self, utterances: Utterances) -> Part:
        transcripts: list[Array] = [indices(text, self.model.characters) for text in utterances.texts]
        return Part(self.model.normalise(utterances.x), utterances.texts, transcripts, utterances.seconds)

    def error_rate(self, weights: Arrays, part: Part) -> float:
        """Return the character error rate of greedily read probabilities."""
        self.model.set_weights(weights)
        mask = np.ones(self.model.manifest.capacity, np.float32)
        heard = [text_of(found, self.model.characters) for found in greedy(self.model.predict(part.x, mask))]
        return character_error_rate(part.texts, heard)

    def tested(self, weights: Arrays, model: str = "global") -> list[dict[str, Any]]:
        """Return of every device ``device``, ``utterances``, and a model's error rate on its own test by its name."""
        return [
            {"device": number, "utterances": size, model: self.error_rate(weights, part)}
            for number, (size, part) in enumerate(zip(self.sizes, self.tests, strict=True))
        ]

    def rounds(self, method: Method, count: int) -> tuple[Arrays, list[dict[str, Any]]]:
        """Train the global model; return its weights and an entry for each round.

        An entry has ``devices``, ``loss`` (the median of the devices'), ``seconds`` of speech trained on, the
        ``processor_s`` that took, and the global model's error rate on the server's ``development`` speakers.
        """
        federation = self._federation(method, count)
        for number in range(count):
            federation.play(number)
        entries = [{key: value for key, value in entry.items() if key != "round"} for entry in self.state.rounds]
        return self.state.fleet.weights, entries

    def _federation(self, method: Method, count: int = 1) -> Federation:
        self._method = method
        self.first = FleetState(self._public_set, self.start)
        rounds = RoundsSection(
            count=count,
            strategy="fedavg",
            seed=self.seed,
            aggregation={"name": "weighted_mean", "by_size": method.by_size},
            selection={"name": method.selection.name, **method.selection.settings},
        )
        data, fleet = DataSection("synthetic"), FleetSection(devices=len(self.sizes))
        return Federation(SpeechExperiment(data, fleet, ModelSection(Path()), rounds), self)

    def contribute(self, work: Work, devices: Sequence[int]) -> Uploads:
        """Let devices pass once over their phrases."""
        self._clock = time.process_time()
        sent, losses, self._seconds = self._sent(work, self.state.fleet.weights, devices, (_GLOBAL, work.round_id))
        return Uploads(sent, losses)

    def learn(self, _work: Work, _result: RoundResult, devices: Sequence[int]) -> dict[str, Any]:
        """Say what the round took, and test what it made."""
        spent, weights = time.process_time() - self._clock, self.state.fleet.weights
        entry = {"devices": list(devices), "seconds": self._seconds, "processor_s": spent}
        return entry | {"development": self.error_rate(weights, self.development)}

    def _sent(
        self, work: Work, weights: Arrays, members: Sequence[int], purpose: tuple[int, ...]
    ) -> tuple[list[Contribution], list[float], float]:
        """Let devices pass once; return their uploads, their losses and the seconds of speech."""
        sent, losses, seconds = list[Contribution](), list[float](), 0.0
        optimiser = Optimiser(self._method.rate, proximal=self._method.proximal)
        assert self.manifest is not None
        for one in members:
            trained, loss, heard = self._trained(weights, one, optimiser, 1, purpose)
            update = Update(
                round_id=work.round_id,
                device_id=device_id(one),
                features=self.manifest.feature_settings.digest,
                public_set=work.public_set,
                classes=self._public_set.class_ids,
                clips=self.sizes[one],
            )
            arrays = {PREFIX + name: array for name, array in trained.items()}
            sent.append(Contribution(update, partial(dict, arrays)))
            losses.append(loss)
            seconds += heard
        return sent, losses, seconds

    def _trained(
        self, weights: Arrays, device: int, optimiser: Optimiser, passes: int, purpose: tuple[int, ...]
    ) -> tuple[Arrays, float, float]:
        """Return what a device makes of weights in some passes, the last one's mean loss, and the seconds of speech."""
        rng = np.random.default_rng([self.seed, *purpose, device])
        self.model.set_weights(weights)
        loss, seconds = float("nan"), 0.0
        for _ in range(passes):
            part = self._phrases(self._recordings[device], rng)
            loss = train_epoch(self.model, part.x, part.transcripts, optimiser, rng)
            seconds += part.seconds
        return self.model.get_weights(), loss, seconds

    def _phrases(self, speakers: Sequence[Sequence[Word]], rng: np.random.Generator) -> Part:
        """Return the phrases of a pass."""
        return self._part(joined([phrases(speaker, self._each, rng) for speaker in speakers]))

    def recorded(self) -> list[float]:
        """Return the seconds of speech in each device's recordings to train on, without pauses."""
        return [sum(word.seconds for speaker in device for word in speaker) for device in self._recordings]

    def alone(self, rate: float, passes: int) -> list[float]:
        """Return the error rates of devices that train the start on their own recordings only."""
        trained = [self._fine_tuned(self.start, device, rate, passes) for device in range(len(self.sizes))]
        return [self.error_rate(weights, part) for weights, part in zip(trained, self.tests, strict=True)]

    def central(self, rate: float, passes: int) -> Arrays:
        """Return what the start becomes on all devices' recordings together: what a fleet can come to."""
        everybody = [speaker for device in self._recordings for speaker in device]
        rng = np.random.default_rng([self.seed, _CENTRAL])
        self.model.set_weights(self.start)
        for _ in range(passes):
            part = self._phrases(everybody, rng)
            train_epoch(self.model, part.x, part.transcripts, Optimiser(rate), rng)
        return self.model.get_weights()

    def personal(self, weights: Arrays, how: Personal) -> list[dict[str, Any]]:
        """Personalise a global model for every device, by local passes alone and with groups' rounds before them.

        A device passes over its own utterances equally often either way.

        Returns:
            For each device ``utterances``, ``group``, ``passes``, and the error rates ``global``, ``local`` and
            ``group_balanced`` on its own test; ``global_heard`` and ``group_balanced_heard``, on phrases of recordings
            that it trains on. It listens with the group-balanced model, or with the global one where that has fewer
            errors on the phrases held out: ``listening`` on its own test, ``strangers`` on the server's.
        """
        settings = complete("personalisation", Choice("group_balanced", dict(how.groups))).settings
        planned = schedule({str(device): size for device, size in enumerate(self.sizes)}, settings)
        found: dict[int, dict[str, Any]] = {}
        federation = self._federation(Method(Choice("all", {}), how.rate))
        for group, (names, rounds) in enumerate(zip(planned.groups, planned.rounds, strict=True)):
            members = [int(name) for name in names]
            start = weights
            for number in range(rounds):
                work = federation.opened(number)
                sent, _, _ = self._sent(work, start, members, (_GROUPS, group, number))
                start = federation.aggregator.combined(work, Uploads(sent), start, {})[0].weights or start
            for device in members:
                about = {"device": device, "utterances": self.sizes[device], "group": group}
                about["passes"] = rounds + how.passes
                found[device] = about | self._judged(weights, start, device, how, rounds)
        return [found[device] for device in sorted(found)]

    def _judged(self, weights: Arrays, group: Arrays, device: int, how: Personal, rounds: int) -> dict[str, float]:
        """Return a device's error rates with the global model, and fine-tuned from that and from its group's."""
        models = {
            "global": weights,
            "local": self._fine_tuned(weights, device, how.rate, rounds + how.passes),
            "group_balanced": self._fine_tuned(group, device, how.rate, how.passes),
        }
        heard = self._phrases(self._recordings[device], np.random.default_rng([self.seed, _HEARD, device]))
        rates = {name: self.error_rate(model, self.tests[device]) for name, model in models.items()}
        both = ("group_balanced", "global")
        rates |= {f"{name}_heard": self.error_rate(models[name], heard) for name in both}
        kept = min(both, key=lambda name: self.error_rate(models[name], self.held_out[device]))
        return rates | {"listening": rates[kept], "strangers": self.error_rate(models[kept], self.server_test)}

    def _fine_tuned(self, weights: Arrays, device: int, rate: float, passes: int) -> Arrays:
        """Return weights that a device has trained further on its own recordings."""
        return self._trained(weights, device, Optimiser(rate), passes, (_LOCAL,))[0]
