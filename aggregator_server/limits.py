"""Bounds on what others may send to the aggregator, beside those of the protocol (fleet_protocol/limits.py).

docs/security.md, "Bounds", says what they are for. A bound is checked before anything is allocated, read or
parsed for what it bounds.
"""

from fleet_protocol.bounded_json import JsonBounds
from fleet_protocol.limits import MESSAGE_BYTES, UPDATE_BYTES
from fleet_protocol.numbers.tensors import TensorBounds

# Bodies, in bytes.
FORM_BYTES = 64 * 2**10  # of the dashboard, from whoever is signed in
STRANGERS_FORM_BYTES = 4 * 2**10  # of the form that anybody may send: to sign in

HEAD_BYTES = 16 * 2**10  # of a request's line and headers

# Time that a client has for a body, in seconds. The proxy in front bounds heads and connections (systemd/nginx.conf).
STALL_S = 30.0  # between two pieces of it
BODY_S = 60.0  # for all of it, and so much more as it takes at the slowest rate
SLOWEST_BYTES_PER_S = 16 * 2**10
AWAY_S = 120.0
"""Time after which a device that was not heard of is away, s: a round leaves it out, and nobody waits for it. A device
asks for work at least every minute, and the server writes down half a minute later when it was heard of."""
IDLE_S = 75  # between two requests; longer than the longest poll and than the proxy keeps a connection

# Connections.
CONNECTIONS = 16_384  # a proxy may keep one for each device that waits
FILES_PER_CONNECTION = 2  # its socket, and a file that it uploads or downloads
FILES_OF_SERVER = 256  # the database, the log
WAITING_TO_BE_ACCEPTED = 1_024
RECEIVED_BYTES = 32 * 2**10  # of a connection that the system holds, and that are read at once: a body waits elsewhere
RETRY_AFTER_S = 5
READY_S = 3.0  # in which the database and the store must answer for the server to be ready

# The dashboard.
SESSION_S = 8 * 3600.0  # after which a person signs in again
SIGN_IN_LINK_S = 60.0  # in which a link that signs in is used
SESSIONS_PER_TOKEN = 16  # the next one ends the oldest
FORM_FIELDS = 500

# Threads. Administrators' requests have their own, so that they do not queue behind a fleet that wakes.
DEVICE_THREADS = 2
DISK_THREADS = 8  # that mostly wait for the disk to have an upload
OTHER_THREADS = 6
UPLOADS_READ_AT_ONCE = 16
TURN_S = 0.5  # without a byte, after which another is read
# Of all uploads together that are coming in: twice what those can have whose turn it is.
INCOMING_BYTES = 2 * UPLOADS_READ_AT_ONCE * UPDATE_BYTES
WOKEN_AT_ONCE = 16
BEGUN_AT_ONCE = 8  # of devices' requests, before others have their turn

# What is parsed.
MESSAGE = JsonBounds(size=MESSAGE_BYTES, values=2**14, depth=16)
UPDATE = TensorBounds(
    header=JsonBounds(size=2**20, values=2**15, depth=4),
    document=JsonBounds(size=2**19, values=2**15, depth=8),
    arrays=1_024,
)

# What messages and documents hold.
METRICS = 200
CLIPS = 2**31  # a device has fewer
SLOTS = 65_536
LABEL_ENTROPY = 20.0  # in nats: that of 485 million labels of one clip each
IMPRESSIONS = 4_096  # data impressions of one class: the largest value of the setting `impressions`
STEP_FACTOR = 1e6  # largest value of the setting `step_factor`, which follows from what devices reported

# Classes. Sounds beyond these bounds are reported again. The new sounds of one upload are bounded by the protocol.
REPORTS_PER_ROUND = 10_000
REPORTS_WHATEVER_BYTES = 256  # of them that are looked at whatever their descriptions take
DESCRIPTION_BYTES = 2**28  # of the others' descriptions, which are all in memory
REFERENCES_PER_ROUND = 512  # descriptions of known classes
NEW_CLASSES_OF_A_DEVICE = 4  # in one round, that it alone reports
CLASSES_OF_A_DEVICE = 8  # of the fleet's, that it alone sent and no operator approved
SENDERS = 32  # of one class, that are noted
DEVICES_NEEDED = 2  # that must have sent a class before others listen for it, by default
CLASSES = 256  # of a fleet, those that wait for an operator included; a published public set may have more

# What no row names is removed at this age: by then whoever stored it has written its row, or never will.
UNNAMED_S = 86_400.0

# A result takes seconds. Whatever takes an hour would hold up every round after it.
COMPUTATION_S = 3600.0
# So often may the process that computes a round's result die before the round fails.
COMPUTATION_DEATHS = 3

# Below this share of the disk, or these bytes of a large one, no upload, public set or model is taken in: results and
# the database need the rest.
LEAST_FREE_SHARE, LEAST_FREE_BYTES = 0.05, 1e9

# Rows of the audit about requests with wrong tokens.
REFUSALS_NOTED_S = 3600.0  # in this time
REFUSALS_NOTED = 200  # of all addresses together
REFUSALS_NOTED_OF_ADDRESS = 20

# New devices that one token may bring in a minute: a home's devices come at once, a flood does not stop.
DEVICES_PER_MINUTE = 60
# Devices, revoked ones included, that the enrolment token may bring in all.
DEVICES_PER_ENROLMENT_TOKEN = 5_000
DEVICES_PER_INVITATION = 1_000  # at most

# What an upload may hold (aggregation/input_bounds.py). Trained weights stay below a hundred; squares and sums of a
# thousand times that still fit float32.
LARGEST_WEIGHT = 1e6
# How far beyond the public recordings' values a description may go, in widths of their range. Impressions are inputs
# that a network was led to; a mean of embeddings may be of any sound.
IMPRESSION_RANGES = 3.0
PROTOTYPE_RANGES = 10.0
# A number of an embedding that is 0 in all recordings of a few public sounds is often as large as others in an owner's.
PROTOTYPE_LEAST_WIDTH = 1.0
# Medians of the devices' numbers of clips above which more do not count, by default: in a mean, in how far the screen
# lets an update lead, and where they only decide who is asked and for how long. Ten times the chance is what an honest
# device with much data needs.
CLIPS_CAP = 3.0
SCREEN_CAP = 10.0
SELECTION_CAP = 10.0
# Uploads that were screened or refused, less those that counted since, at which a device is put in quarantine.
SUSPICION = 3
# The same where a whole group stands out, most of whose devices are honest.
SUSPICION_IN_GROUPS = 6
