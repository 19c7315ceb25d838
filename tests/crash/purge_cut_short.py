"""`python -m tests.crash.purge_cut_short ID`: a purge that is killed when the history is in place and nothing else is cleaned.

The index is left as a power cut may leave it: its last transactions, which took the memory out, are lost.
"""

from __future__ import annotations

import os
import signal
import sys

from ormahd.__main__ import load
from ormahd.actions.amend import Caller
from ormahd.actions.purge import purge
from ormahd.api import PurgeParams
from ormahd.ormah import Ormah


def main() -> None:
    ormah = Ormah.open(load())
    ormah.warm()
    path = ormah.index.note(sys.argv[1]).path
    before = {path: ((ormah.vault.root / path).read_bytes(), ormah.index.known_files()[path])}

    def progress(_done: int, _total: int, stage: str) -> None:
        if stage == "looking through sessions":
            ormah.index.apply(before, (), head=None)
            os.kill(os.getpid(), signal.SIGKILL)

    purge(ormah, PurgeParams(node_id=sys.argv[1]), Caller("person", None), progress)


if __name__ == "__main__":
    main()
