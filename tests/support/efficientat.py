"""EfficientAT mn04 in plain NumPy, layer by layer as PyTorch has it: what the TensorFlow graph must equal.

`python -m tests.support.efficientat FOLDER` writes what TensorFlow makes of random weights and features: `made.npz` and
`graph.tflite`.
"""

import sys
from pathlib import Path

import numpy as np

# Kernel, expansion (0: none), out, squeezed channels (0: none), ReLU or hard-swish, stride.
BLOCKS = [
    *((3, 0, 8, 0, "RE", 1), (3, 24, 16, 0, "RE", 2), (3, 32, 16, 0, "RE", 1), (5, 32, 16, 8, "RE", 2)),
    *((5, 48, 16, 16, "RE", 1), (5, 48, 16, 16, "RE", 1), (3, 96, 32, 0, "HS", 2), (3, 80, 32, 0, "HS", 1)),
    *((3, 72, 32, 0, "HS", 1), (3, 72, 32, 0, "HS", 1), (3, 192, 48, 48, "HS", 1), (3, 272, 48, 72, "HS", 1)),
    *((5, 272, 64, 72, "HS", 2), (5, 384, 64, 96, "HS", 1), (5, 384, 64, 96, "HS", 1)),
]
STEM, LAST, BANDS, HALF_SECOND = 8, 384, 128, 48


def random_arrays(seed):
    """Weights by PyTorch's names, drawn so that no layer dies or grows without bound."""
    rng = np.random.default_rng(seed)
    arrays = {}

    def convolution(name, out, into, kernel):
        scale = np.sqrt(2 / (into * kernel * kernel))
        arrays[f"{name}.0.weight"] = scale * rng.standard_normal((out, into, kernel, kernel))
        for part, low, high in (("weight", 0.5, 1.5), ("bias", -0.5, 0.5), ("running_mean", -0.5, 0.5)):
            arrays[f"{name}.1.{part}"] = rng.uniform(low, high, out)
        arrays[f"{name}.1.running_var"] = rng.uniform(0.5, 2.0, out)

    convolution("features.0", STEM, 1, 3)
    channels = STEM
    for number, (kernel, expansion, out, squeezed, _, _) in enumerate(BLOCKS, 1):
        block, inner = f"features.{number}.block", expansion or channels
        if expansion:
            convolution(f"{block}.0", inner, channels, 1)
        convolution(f"{block}.{int(expansion > 0)}", inner, 1, kernel)
        if squeezed:
            for part, rows, columns in (("fc1", squeezed, inner), ("fc2", inner, squeezed)):
                name = f"{block}.2.conc_se_layers.0.{part}"
                arrays[f"{name}.weight"] = rng.standard_normal((rows, columns)) / np.sqrt(columns)
                arrays[f"{name}.bias"] = rng.uniform(-0.5, 0.5, rows)
        convolution(f"{block}.{1 + (expansion > 0) + (squeezed > 0)}", out, inner, 1)
        channels = out
    convolution("features.16", LAST, channels, 1)
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def random_features(clips, frames):
    return np.random.default_rng(1).standard_normal((clips, frames, BANDS)).astype(np.float32)


def embeddings(arrays, features):
    """Return float64 [clips, 384] of float32 [clips, frames, bands]."""
    arrays = {name: array.astype(np.float64) for name, array in arrays.items()}

    def convolved(x, name, stride=1):
        weight = arrays[f"{name}.0.weight"]
        size = weight.shape[2]
        side = (size - 1) // 2
        padded = np.pad(x, ((0, 0), (0, 0), (side, side), (side, side)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), (2, 3))[:, :, ::stride, ::stride]
        if weight.shape[1] == 1 and x.shape[1] > 1:
            y = np.einsum("ncxyij,cij->ncxy", windows, weight[:, 0])
        else:
            y = np.tensordot(windows, weight, ((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)
        scale, offset, mean, variance = (
            arrays[f"{name}.1.{part}"][:, None, None] for part in ("weight", "bias", "running_mean", "running_var")
        )
        return (y - mean) / np.sqrt(variance + 0.001) * scale + offset

    def hard_swish(x):
        return x * np.clip(x + 3, 0, 6) / 6

    x = hard_swish(convolved(features.astype(np.float64).transpose(0, 2, 1)[:, None], "features.0", 2))
    for number, (_, expansion, out, squeezed, kind, stride) in enumerate(BLOCKS, 1):
        block, active = f"features.{number}.block", hard_swish if kind == "HS" else lambda v: np.maximum(v, 0)
        y = active(convolved(x, f"{block}.0")) if expansion else x
        y = active(convolved(y, f"{block}.{int(expansion > 0)}", stride))
        if squeezed:
            first, second = (f"{block}.2.conc_se_layers.0.fc{part}" for part in (1, 2))
            hidden = np.maximum(y.mean((2, 3)) @ arrays[f"{first}.weight"].T + arrays[f"{first}.bias"], 0)
            share = 1 / (1 + np.exp(-(hidden @ arrays[f"{second}.weight"].T + arrays[f"{second}.bias"])))
            y = y * share[:, :, None, None]
        y = convolved(y, f"{block}.{1 + (expansion > 0) + (squeezed > 0)}")
        x = x + y if stride == 1 and x.shape[1] == out else y
    return hard_swish(convolved(x, "features.16")).mean((2, 3))


def main(folder):
    from model_export.sounds.network import SoundNetwork, half_graph, multiply_adds
    from model_export.sounds.weights import Projection, fold

    convolutions = fold(random_arrays(0))
    rng = np.random.default_rng(2)
    projection = Projection(rng.standard_normal((LAST, 12)).astype(np.float32), rng.random(12).astype(np.float32))
    whole = SoundNetwork(convolutions)
    rounded = SoundNetwork({name: layer.rounded() for name, layer in convolutions.items()}, projection)
    np.savez(
        folder / "made.npz",
        whole=whole.embeddings(random_features(3, HALF_SECOND)),
        projected=rounded.embeddings(random_features(3, HALF_SECOND)),
        multiply_adds=[multiply_adds(whole, frames) for frames in (98, 198)],
    )
    (folder / "graph.tflite").write_bytes(half_graph(rounded))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
