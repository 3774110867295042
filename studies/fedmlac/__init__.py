"""FedMLAC: mutual learning and layer-wise pruning aggregation."""
