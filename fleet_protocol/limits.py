"""Bounds that devices and aggregator both keep (docs/protocol.md). Those of one side alone stand with that side."""

# Bodies, in bytes: a JSON message; an upload; a public set, or the consensus on it; a model, its weights or prototypes.
MESSAGE_BYTES = 2**20
UPDATE_BYTES = 64 * 2**20
PUBLIC_SET_BYTES = 512 * 2**20
MODEL_BYTES = 64 * 2**20

# Characters.
NAME_LENGTH = 200  # of a device's, a class's or a label's name, and of a class's identifier
VERSION_LENGTH = 100  # of each text in which a device says what it runs
ADDRESS_LENGTH = 300  # of an address of the server

# Counts.
LABELS = 4_096  # of a device
REPORTS = 32  # new sounds in one upload; a device with more of them reports the others in later rounds
NEGATIVES = 2  # of one class in one upload: sounds that an owner said are none of its
NEGATIVES_OF_FLEET = 16  # of one class in what the fleet is told
STATES_BEFORE = 5  # of a word: windows before its newest one, half a second older each
CLASSES_OF_WORK = 10_000  # in one piece of work
# Devices of a private round's group. A share's number has 8 bits, and a group may be dealt almost twice as many.
LEAST_GROUP, LARGEST_GROUP = 4, 128

# Seconds.
WORD_S = 4.0  # that a device says a word lasts; what is kept of one lasts three
