"""Plain inference models for users who want nothing of the fleet: RAW features in, probabilities out.

Normalisation and softmax are inside. In the int8 model the network is quantised and the normalisation stays float:
coefficients differ up to fifty-fold in their deviation, and one scale for all of them would erase the small ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from fleet_protocol.arrays import Floats
from fleet_protocol.tensors import Arrays
from model_export.bundle import Converter, build_network, convert, load_weights
from model_export.errors import ExportError
from model_export.graph_operators import require_builtin
from model_export.layers.operators import Tensor
from model_export.specification import Specification

_CALIBRATION_CLIPS = 200


class Inference(tf.Module):  # type: ignore[misc]
    """Features [n, frames, coefficients] to probabilities [n, classes], over the head's first ``classes`` slots."""

    def __init__(self, specification: Specification, weights: Arrays, classes: int, rows: int | None = None) -> None:
        """Build the network with these weights.

        Args:
            weights: float32 arrays by name.
            classes: outputs: the head's first slots.
            rows: clips of a call; None: any number, which needs a runtime that can resize its input.
        """
        super().__init__()
        if specification.characters:
            raise ExportError(
                f"{specification.architecture} has no classes, of which a plain model would tell: it "
                "transcribes; build the bundle without --tflite"
            )
        if not 2 <= classes <= specification.capacity:
            raise ExportError(f"{classes} labels do not fit a head with room for 2 to {specification.capacity}")
        self._specification = specification
        self._network: keras.Model = build_network(specification)
        load_weights(self._network, weights)
        self._constants = [tf.constant(variable.value) for variable in self._network.trainable_variables]
        self._classes, self._rows = classes, rows

    def __call__(self, features: Tensor) -> Tensor:
        """Return the probabilities."""
        normalisation = self._specification.normalisation
        x = (features - tf.constant(normalisation.mean)) * (1.0 / tf.constant(normalisation.std))
        logits, _ = self._network.stateless_call(self._constants, [], x)
        return tf.nn.softmax(logits[:, : self._classes])

    def float32(self) -> bytes:
        """Convert to a float32 TFLite model. Raises OperatorError: it needs an operator that a runtime lacks."""
        return convert(self._converter())

    def int8(self, features: Floats | None = None) -> bytes:
        """Convert to a TFLite model with int8 weights and activations, and float32 input and output.

        Args:
            features: raw features [clips, frames, coefficients] from which the activations' ranges are measured;
                without them, noise with the normalisation's mean and deviation.

        Raises OperatorError: it needs an operator that a runtime lacks.
        """
        clips = self._noise() if features is None else features[:: -(-len(features) // _CALIBRATION_CLIPS)]

        def calibration() -> Iterator[list[Floats]]:
            return ([clip[None]] for clip in clips)

        converter = self._converter()
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = calibration
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        # TensorFlow's only way to leave chosen operators in float.
        normalisation_only = tf.lite.experimental.QuantizationDebugOptions(denylisted_ops=["SUB", "MUL"])
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="(?s).*tf.lite.Interpreter is deprecated")
            debugger = tf.lite.experimental.QuantizationDebugger(
                converter=converter, debug_dataset=calibration, debug_options=normalisation_only
            )
        graph = bytes(debugger.get_nondebug_quantized_model())
        require_builtin(graph)
        return graph

    def _converter(self) -> Converter:
        spec = tf.TensorSpec((self._rows, *self._specification.settings.shape), tf.float32, "features")
        function = tf.function(self.__call__, autograph=False).get_concrete_function(spec)
        return tf.lite.TFLiteConverter.from_concrete_functions([function], self)

    def _noise(self) -> Floats:
        normalisation = self._specification.normalisation
        generator = np.random.default_rng(self._specification.seed)
        noise = generator.normal(size=(_CALIBRATION_CLIPS, *self._specification.settings.shape))
        return np.asarray(noise * normalisation.std + normalisation.mean, np.float32)
