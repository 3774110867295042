"""Prints how many weights the published networks have, as JSON; loads TensorFlow, so in a process of its own."""

import json

from fleet_protocol.feature_settings import preset
from model_export import network
from model_export.feature_statistics import Normalisation
from model_export.specification import Specification

if __name__ == "__main__":
    settings = preset("kws40")
    normalisation = Normalisation.default(settings)
    print(
        json.dumps(
            {
                f"{name} {capacity}": network.build(
                    Specification(name, settings, normalisation, capacity)
                ).count_params()
                for name in ("dscnn_172", "mhattrnn", "resnet15", "transformer")
                for capacity in (12, 35)
            }
        )
    )
