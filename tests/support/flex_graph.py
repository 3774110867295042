"""Writes a graph with a Flex operator to the given file, and prints what our own converter says of such a network."""

import sys
from pathlib import Path

import tensorflow as tf

from model_export.bundle import convert
from model_export.errors import OperatorError


def converter():
    """A converter for a function that TensorFlow Lite has no built-in operator for."""
    function = tf.function(lambda x: tf.raw_ops.ReluGrad(gradients=x, features=x))
    return tf.lite.TFLiteConverter.from_concrete_functions(
        [function.get_concrete_function(tf.TensorSpec([4], tf.float32))]
    )


if __name__ == "__main__":
    try:
        convert(converter())
    except OperatorError as error:
        print(str(error).splitlines()[0])
    flex = converter()
    flex.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
    Path(sys.argv[1]).write_bytes(flex.convert())
