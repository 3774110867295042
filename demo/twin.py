"""`python -m demo.twin CONFIG`: does the training jobs on standard input, one a line, as a device's process does one.

One process for all of a twin's jobs: a start costs as much as a round's training.
"""

from __future__ import annotations

import sys
from pathlib import Path

from edge_client.config import load_config
from edge_client.learning.training_job import from_line
from edge_client.learning.worker import run
from edge_client.logs import set_up_log
from fleet_protocol.errors import AuricleError


def main() -> int:
    """Do the jobs; return 0, or 1 after a message."""
    set_up_log()
    try:
        config = load_config(Path(sys.argv[1]))
        for line in sys.stdin:
            run(config, from_line(line))
    except (AuricleError, OSError) as error:
        print(f"auricle-edge: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
