"""A gated recurrent unit (Cho et al. 2014) that trains in built-in operators, written out step by step.

The form is that of Keras and cuDNN (`reset_after=True`): h' = z h + (1 - z) tanh(x_h + r (h R_h + b_h)), gates z, r.
One matrix product a step is left; those of the input and of the weights' gradients are taken over all steps at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from model_export.layers.operators import Gradient, Tensor


@dataclass(frozen=True)
class _Step:
    """What the gradient needs of one step; all [n, units]."""

    before: Tensor
    update: Tensor
    reset: Tensor
    candidate: Tensor
    recalled: Tensor


def gru(
    x: Tensor, kernel: Tensor, recurrent_kernel: Tensor, bias: Tensor, *, backwards: bool, every_step: bool
) -> Tensor:
    """Run over [n, steps, inputs] from a state of zeros, forwards or backwards in time.

    Weights are as Keras has them: [inputs, 3 units], [units, 3 units] and [2, 3 units], gates in the order z, r, h.

    Returns:
        Every state [n, steps, units], in the order of the input, or only the one reached last [n, units].
    """
    steps, inputs = x.shape[1:]
    units = recurrent_kernel.shape[0]
    order = list(range(steps))[:: -1 if backwards else 1]

    def run(x: Tensor, kernel: Tensor, recurrent_kernel: Tensor, bias: Tensor) -> tuple[Tensor, Gradient]:
        input_bias, recurrent_bias = tf.unstack(bias)
        rows = tf.reshape(tf.transpose(x, [1, 0, 2]), [-1, inputs])
        projected = tf.nn.bias_add(tf.matmul(rows, kernel), input_bias)
        by_time = tf.unstack(tf.reshape(projected, [steps, -1, 3 * units]))
        state = tf.zeros_like(by_time[0][:, :units])
        records: dict[int, _Step] = {}
        states: dict[int, Tensor] = {}
        for t in order:
            recurrent = tf.nn.bias_add(tf.matmul(state, recurrent_kernel), recurrent_bias)
            records[t] = _step(by_time[t], recurrent, state)
            state = states[t] = _next(records[t])

        def gradient(dy: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
            by_input, by_state = _gates_gradients(dy, records, order, recurrent_kernel, every_step)
            slopes, recurrent = tf.concat(by_input, 0), tf.concat(by_state, 0)
            dx = tf.reshape(tf.matmul(slopes, kernel, transpose_b=True), [steps, -1, inputs])
            before = tf.concat([records[t].before for t in range(steps)], 0)
            return (
                tf.transpose(dx, [1, 0, 2]),
                tf.matmul(rows, slopes, transpose_a=True),
                tf.matmul(before, recurrent, transpose_a=True),
                tf.stack([tf.reduce_sum(slopes, 0), tf.reduce_sum(recurrent, 0)]),
            )

        return tf.stack([states[t] for t in range(steps)], axis=1) if every_step else state, gradient

    return tf.custom_gradient(run)(x, kernel, recurrent_kernel, bias)


def _step(given: Tensor, recurrent: Tensor, before: Tensor) -> _Step:
    """Compute gates and candidate from the projections of input and state, both [n, 3 units]."""
    units = before.shape[-1]
    given_gates, given_candidate = tf.split(given, [2 * units, units], axis=-1)
    recurrent_gates, recalled = tf.split(recurrent, [2 * units, units], axis=-1)
    update, reset = tf.split(tf.sigmoid(given_gates + recurrent_gates), 2, axis=-1)
    return _Step(before, update, reset, tf.tanh(given_candidate + reset * recalled), recalled)


def _next(step: _Step) -> Tensor:
    return step.candidate + step.update * (step.before - step.candidate)


def _gates_gradients(
    dy: Tensor, records: dict[int, _Step], order: list[int], recurrent_kernel: Tensor, every_step: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """Go back through time: slopes of the input's and of the state's projection, [n, 3 units] for each step."""
    outputs = tf.unstack(dy, num=len(order), axis=1) if every_step else []
    slope = outputs[order[-1]] if every_step else dy
    by_input: list[Tensor] = [None] * len(order)
    by_state: list[Tensor] = [None] * len(order)
    for position, t in reversed(list(enumerate(order))):
        step = records[t]
        kept = slope * step.update
        candidate = (slope - kept) * (1.0 - step.candidate * step.candidate)
        update = (kept - kept * step.update) * (step.before - step.candidate)
        reset = candidate * step.recalled * (step.reset - step.reset * step.reset)
        by_input[t] = tf.concat([update, reset, candidate], -1)
        by_state[t] = tf.concat([update, reset, candidate * step.reset], -1)
        if position:
            slope = kept + tf.matmul(by_state[t], recurrent_kernel, transpose_b=True)
            if every_step:
                slope += outputs[order[position - 1]]
    return by_input, by_state
