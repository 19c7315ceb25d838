"""Start the gateway: `main(SOCKET [LOCK])`, as `ormahctl.shim.gateway` does.

It listens before it imports anything large, so that the connection of the first agent is taken at once.
"""

from __future__ import annotations

import gc
import logging.handlers
import os
import sys
from pathlib import Path

from ormahctl.gateway.listen import GatewaySocket, open_gateway_socket
from ormahctl.shim.gateway import address
from ormahd.rpc.wire import OrmahError

LOG_BYTES = 1_000_000
"""Size of the log at which a new one is begun and the old one renamed. It is small, as the directory may be in memory."""


def main(words: list[str]) -> int:
    """Run the gateway for the daemon at the socket `words[0]`. `words[1]`: the descriptor that holds its lock.

    Log and errors go to stderr, which is a file beside the socket (`ormahctl.shim.gateway`).
    """
    gc.disable()  # nothing that is imported is ever freed
    os.umask(0o077)
    daemon = Path(words[0])
    bounded = logging.handlers.RotatingFileHandler(address(words[0]) + ".log", maxBytes=LOG_BYTES, backupCount=1)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s", handlers=[bounded])
    try:
        listener = open_gateway_socket(daemon, int(words[1]) if len(words) > 1 else None)
    except OrmahError as exc:
        sys.stderr.write(f"error: {exc.message}\n")
        return exc.exit_status
    _run_gateway(daemon, listener)
    return 0


def _run_gateway(daemon: Path, listener: GatewaySocket) -> None:
    """Run the gateway until it ends. asyncio is imported only here, when the socket listens already."""
    import anyio

    from ormahctl.gateway.daemon import DaemonLink
    from ormahctl.gateway.host import Gateway

    gc.freeze()
    gc.enable()

    async def run() -> None:
        await Gateway(listener, DaemonLink(daemon)).run()

    anyio.run(run)
