"""Builds bundles: a TFLite graph that trains on the device, initial weights and manifest.

No Flex or custom operator may be left in the graph, because no pip wheel of the runtime holds any.
"""

import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fleet_protocol.bundle.bundle_file import Layer, Manifest, write_bundle
from fleet_protocol.bundle.feature_settings import JointSettings
from fleet_protocol.numbers.tensors import Arrays
from model_export.errors import OperatorError
from model_export.graph_operators import require_builtin
from model_export.layers import device_layers
from model_export.specification import Specification
from model_export.trainable import Trainable, weight_name


def build_network(specification: Specification, *, stock: bool = False) -> keras.Model:
    """Build a network: normalised features [n, frames, numbers per frame] to logits [n, capacity].

    Weights are seeded (Glorot uniform; biases zero; recurrent ones orthogonal). Its last layer is the head, which
    begins at zero on a joint front end.

    Args:
        stock: use Keras's own layers instead of those that train on a device; both take the same weights.
    """
    keras.utils.set_random_seed(specification.seed)
    source = keras.layers if stock else device_layers
    x = keras.Input(specification.settings.shape)
    embedding = specification.network.connect(source, x, specification.width)
    logits = source.Dense(specification.outputs, name="head")(embedding)
    model = keras.Model(x, logits, name=specification.architecture)
    if isinstance(specification.settings, JointSettings):
        # What no training moves, as a word's weights of the numbers for sounds, must not speak.
        kernel = model.trainable_variables[-2]
        kernel.assign(np.zeros(kernel.shape, np.float32))
    return model


def build_bundle(specification: Specification) -> bytes:
    """Build a bundle. Raises OperatorError: the graph needs an operator that a device's runtime lacks."""
    model = build_network(specification)
    trainable = Trainable(model, specification.batch)
    graph = convert_module(trainable.state, trainable.signatures(), has_variables=True)
    return write_bundle(describe(model, specification), graph, weights_of(model))


def convert_module(
    module: tf.Module,
    signatures: Mapping[str, Any],
    *,
    half: bool = False,
    calibration: Callable[[], Iterable[Any]] | None = None,
    has_variables: bool = False,
) -> bytes:
    """Convert a module's concrete functions, which have names in a graph only by way of a saved model.

    Args:
        half: whether the weights are float16 in the graph, and float32 at work.
        calibration: of a graph with int8 weights and activations, float32 at its ends: yields inputs from which the
            activations' ranges are measured.

    Raises OperatorError: it needs an operator that a device's runtime lacks.
    """
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures=dict(signatures))
        converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=list(signatures))
        if has_variables:
            converter.experimental_enable_resource_variables = True
        if half or calibration:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if half:
            converter.target_spec.supported_types = [tf.float16]
        if calibration:
            converter.representative_dataset = calibration
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        return convert(converter)


def convert(converter: Any) -> bytes:  # noqa: ANN401  (TensorFlow's)
    """Run a TFLite converter. Raises OperatorError: the graph needs an operator that a device's runtime lacks."""
    try:
        graph = bytes(converter.convert())
    except tf.errors.OpError as error:
        raise OperatorError(f"the network cannot be converted: {error}") from error
    except Exception as error:
        if type(error).__name__ != "ConverterError":  # the converter's own exception has no public name
            raise
        raise OperatorError(f"the network has no form in built-in operators: {error}") from error
    require_builtin(graph)
    return graph


def weights_of(model: keras.Model) -> Arrays:
    """Return a network's weights by the names that a bundle gives them, float32, in Keras's layout."""
    return {weight_name(v): np.asarray(v.value, np.float32) for v in model.trainable_variables}


def describe(model: keras.Model, specification: Specification) -> Manifest:
    """Write the manifest of a network that was built from a specification."""
    weights, settings = weights_of(model), specification.settings
    grouped: dict[str, list[str]] = {}
    for name in weights:
        grouped.setdefault(name.split("/")[0], []).append(name)
    return Manifest(
        architecture=specification.architecture,
        options=specification.options,
        capacity=specification.outputs,
        batch=specification.batch,
        input_shape=settings.shape,
        embedding=model.layers[-1].input.shape[-1],
        features=settings.to_json(),
        mean=specification.normalisation.mean,
        std=specification.normalisation.std,
        layers=tuple(Layer(name, tuple(names)) for name, names in grouped.items()),
        weight_shapes={name: array.shape for name, array in weights.items()},
        parameters=sum(array.size for array in weights.values()),
        seed=specification.seed,
        networks=tuple(network.data for network in settings.networks if network.data),
        background=specification.background,
        statistics=specification.statistics,
    )
