"""What a device with two networks needs of their pretrainings: words of one, everyday sounds of the other.

A sound's embedding has two halves, one of each network. A word is told from other words by the first half, and a sound
from other sounds by the second; the other half says which of the two kinds it is. Each pretraining knows its own half
alone. So the other half of a word is drawn from people's talk, as the network for sounds hears it, and that of a sound
from all that the network for words heard.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.numbers.arrays import Array, Doubles, Floats
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics, Scatter
from fleet_protocol.numbers.known import Known

# Draws that stand for the half of which a pretraining knows nothing.
_DRAWS = 400
# Where between talk and sounds a sound begins. A word that is taken for a sound is heard in all talk.
_SOUND_FROM = 0.6
# A word is heard in noise: its second half lies between talk and another sound, at least so near to talk.
_LEAST_TALK = 0.4
# How far what is no word scatters about the mean of all words, in standard deviations of the words' means.
_WIDER = 1.5


@dataclass(frozen=True)
class JointStatistics(EmbeddingStatistics):
    """Statistics of both pretrainings in one embedding."""

    are_sounds: NDArray[np.bool_]  # Whether each of ``words`` is an everyday sound, bool [words]
    talk: Floats  # Second halves of people's talk, float32 [draws, size]
    beyond_words: Floats  # First halves of what is no word, float32 [draws, split]

    def is_sound(self, embeddings: Array) -> bool:
        """Tell from embeddings of one label, [clips, numbers], whether it is an everyday sound rather than a word.

        The second half of their mean lies on the sounds' side of the linear discriminant (Fisher 1936) between people's
        talk and sounds.
        """
        return bool(self._sound_like(embeddings[:, self.split :].mean(axis=0, keepdims=True))[0])

    def _sound_like(self, halves: Array) -> NDArray[np.bool_]:
        direction, begin = self._discriminant
        return np.asarray((halves - begin) @ direction > 0)

    @cached_property
    def _discriminant(self) -> tuple[Doubles, Doubles]:
        """The direction from talk to sounds in the second half, and the point between them from which it is a sound."""
        half = slice(self.split, None)
        sounds = self.means[self.are_sounds, half].astype(np.float64)
        scatter = self.speech.shrunk[half, half] + self.shrunk[half, half] + np.cov(sounds.T)
        talk, other = self.speech.means[0, half].astype(np.float64), sounds.mean(axis=0)
        return np.linalg.solve(scatter, other - talk), talk + _SOUND_FROM * (other - talk)

    def whitened(self, embeddings: Floats) -> Doubles:
        """Return directions, float64 [clips, numbers] of length 1, whose products are whitened cosines.

        Words have directions in the first half alone, sounds in the second; a word and a sound have nothing in common.
        """
        sounds = self._sound_like(embeddings[:, self.split :])
        found = np.empty(embeddings.shape)
        for kind in (False, True):
            found[sounds == kind] = self.directions_as(embeddings[sounds == kind], sound=kind)
        return found

    def directions_as(self, embeddings: Floats, *, sound: bool) -> Doubles:
        """Return the directions, float64 [clips, numbers] of length 1; the half of the other kind is zeros."""
        half, mean, whiten = self._own_halves[sound]
        found = np.zeros(embeddings.shape)
        found[:, half] = (embeddings[:, half] - mean) @ whiten
        return np.asarray(found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9))

    def directions(self, embeddings: Floats) -> Doubles:
        """Return the direction as of a word and that as of a sound side by side, float64 [clips, numbers]."""
        return self.directions_as(embeddings, sound=False) + self.directions_as(embeddings, sound=True)

    @cached_property
    def _own_halves(self) -> tuple[tuple[slice, Doubles, Doubles], ...]:
        """Of words and of sounds: the half that knows them, their mean in it, and what whitens it."""
        whiten, found = self.whitening, []
        for kind, half in ((False, slice(self.split)), (True, slice(self.split, None))):
            mean = self.means[self.are_sounds == kind, half].mean(axis=0, dtype=np.float64)
            found.append((half, mean, whiten[half, half]))
        return tuple(found)


def join(words: EmbeddingStatistics, sounds: EmbeddingStatistics) -> JointStatistics:
    """Return the statistics of embeddings of which the first numbers are the words' network's, the last the sounds'."""
    rng, split = np.random.default_rng(0), words.means.shape[1]
    talk = sounds.speech.draw(sounds.speech.means[0], _DRAWS, rng)
    around = np.concatenate([sounds.noise, sounds.samples.reshape(-1, sounds.samples.shape[-1])])
    share = rng.uniform(_LEAST_TALK, 1.0, (_DRAWS, 1)).astype(np.float32)
    talk = share * talk + (1 - share) * around[rng.integers(len(around), size=_DRAWS)]
    centre = words.means.mean(axis=0, dtype=np.float64)
    apart = (words.means - centre) * _WIDER / np.sqrt(len(words.means) - 1)
    wide = words.draw(centre, _DRAWS, rng) + rng.standard_normal((_DRAWS, len(apart))) @ apart
    beyond_words = np.concatenate([wide, np.resize(words.noise, (_DRAWS, words.noise.shape[1]))]).astype(np.float32)

    def both(of_words: Floats, of_sounds: Floats) -> Floats:
        """Return rows of words and then of sounds, each with the half that it lacks; the axes before stay."""
        lacking_words = beyond_words[rng.integers(len(beyond_words), size=of_sounds.shape[:-1])]
        lacking_sounds = talk[rng.integers(len(talk), size=of_words.shape[:-1])]
        return np.concatenate(
            [np.concatenate([of_words, lacking_sounds], -1), np.concatenate([lacking_words, of_sounds], -1)]
        )

    def means(of_words: Floats, of_sounds: Floats) -> Floats:
        count = len(of_words), len(of_sounds)
        no_word = np.repeat(beyond_words.mean(axis=0, keepdims=True), count[1], axis=0)
        spoken = np.repeat(sounds.speech.means, count[0], axis=0)
        return np.concatenate([np.hstack([of_words, spoken]), np.hstack([no_word, of_sounds])])

    samples = min(words.samples.shape[1], sounds.samples.shape[1])
    noises = min(len(words.noise), len(sounds.noise))
    return JointStatistics(
        means=means(words.means, sounds.means),
        within=_blocks(words.within, sounds.within),
        words=(*words.words, *sounds.words),
        counts=np.concatenate([words.counts, sounds.counts]),
        samples=both(words.samples[:, :samples], sounds.samples[:, :samples]),
        noise=np.hstack([words.noise[:noises], sounds.noise[:noises]]),
        varied=Scatter(
            means(words.varied.means, sounds.varied.means),
            _blocks(words.varied.within, sounds.varied.within),
            split=split,
        ),
        speech=Scatter(
            np.hstack([words.speech.means, sounds.speech.means]),
            _blocks(words.speech.within, sounds.speech.within),
            split=split,
        ),
        split=split,
        are_sounds=np.repeat([False, True], [len(words.words), len(sounds.words)]),
        talk=talk,
        beyond_words=beyond_words,
        known=Known(sounds.known.of_sounds, words.known.of_words),
        unheard=words.unheard,
    )


def _blocks(first: Floats, second: Floats) -> Floats:
    """Return a covariance of two halves that do not depend on one another."""
    size = len(first)
    joint = np.zeros((size + len(second),) * 2, np.float32)
    joint[:size, :size], joint[size:, size:] = first, second
    return joint


def unpack_statistics(packed: Sequence[bytes]) -> EmbeddingStatistics | None:
    """Read the statistics of a front end's networks: none, of one, or of words and of sounds.

    Raises TensorError or BundleError: they are damaged.
    """
    found = [EmbeddingStatistics.unpack(data) for data in packed]
    if len(found) == 2:
        return join(found[0], found[1])
    return found[0] if found else None
