"""Give a server the tokens and the authority of its fleet: share_keys.py KEYS [DATA].

KEYS is a folder that all servers of the fleet see. Where it has none yet, ``tokens.json`` and ``tls/authority.pem`` are
made in it. Both are copied into the data folder DATA of one server, before it starts.
"""

import sys
from pathlib import Path

from aggregator_server.certificates import make_authority
from aggregator_server.security import load_tokens
from fleet_protocol.ground.atomic_files import write_durably

FILES = ("tokens.json", "tls/authority.pem")


def main() -> None:
    """Make what is missing in the shared folder, and copy it; an exception ends the program with 1."""
    keys = Path(sys.argv[1])
    load_tokens(keys, {})
    if not (keys / FILES[1]).exists():
        make_authority(keys / FILES[1])
    for data in map(Path, sys.argv[2:]):
        for name in FILES:
            text = (keys / name).read_bytes()
            if not (data / name).exists() or (data / name).read_bytes() != text:
                write_durably(data / name, text)  # readable by its owner alone


if __name__ == "__main__":
    main()
