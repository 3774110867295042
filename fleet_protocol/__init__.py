"""What devices and the aggregator agree on: messages, arrays, labels, feature settings, model bundles."""
