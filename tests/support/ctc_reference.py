"""What TensorFlow's own CTC makes of some logits; prints JSON.

Run as `python -m tests.support.ctc_reference`, in a process of its own because it loads TensorFlow.
"""

import json

import numpy as np
import tensorflow as tf

STEPS, SYMBOLS = 60, 29
LENGTHS = (20, 1, 0, 29, 12)


def case():
    """Logits [n, steps, symbols], and transcripts with many characters twice in a row."""
    generator = np.random.default_rng(11)
    logits = 3 * generator.normal(size=(len(LENGTHS), STEPS, SYMBOLS))
    return logits.astype(np.float32), [generator.integers(1, 5, length) for length in LENGTHS]


def main():
    """Print the case, its losses, and their gradients with respect to the logits."""
    logits, transcripts = case()
    labels = np.zeros((len(LENGTHS), max(LENGTHS)), np.int32)
    for row, transcript in zip(labels, transcripts, strict=True):
        row[: len(transcript)] = transcript
    given = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(given)
        steps = [STEPS] * len(LENGTHS)
        losses = tf.nn.ctc_loss(labels, given, list(LENGTHS), steps, logits_time_major=False, blank_index=0)
    gradient = tape.gradient(losses, given)
    result = {"logits": logits, "losses": losses.numpy(), "gradient": gradient.numpy()}
    lists = {name: array.tolist() for name, array in result.items()}
    print(json.dumps({**lists, "transcripts": [transcript.tolist() for transcript in transcripts]}))


if __name__ == "__main__":
    main()
