"""Several devices and inputs of one home hear as one: by messages of an MQTT broker."""
