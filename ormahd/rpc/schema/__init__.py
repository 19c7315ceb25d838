"""Parameters and results of every method, one Struct each (msgspec only: clients import this too).

One module for each family of methods; this one is their sum.
"""

from __future__ import annotations

from typing import Final

from ormahd.rpc.schema.admin import *  # noqa: F403
from ormahd.rpc.schema.admin import ADMIN
from ormahd.rpc.schema.agent import *  # noqa: F403
from ormahd.rpc.schema.agent import AGENT
from ormahd.rpc.schema.base import *  # noqa: F403
from ormahd.rpc.schema.base import HelloParams, HelloResult, Params, Result
from ormahd.rpc.schema.history import *  # noqa: F403
from ormahd.rpc.schema.history import HISTORY
from ormahd.rpc.schema.jobs import *  # noqa: F403
from ormahd.rpc.schema.jobs import JOBS
from ormahd.rpc.schema.looking import *  # noqa: F403
from ormahd.rpc.schema.looking import LOOKING
from ormahd.rpc.schema.maintenance import *  # noqa: F403
from ormahd.rpc.schema.maintenance import MAINTENANCE
from ormahd.rpc.schema.sync import *  # noqa: F403
from ormahd.rpc.schema.sync import SYNC
from ormahd.rpc.schema.whisper import *  # noqa: F403
from ormahd.rpc.schema.whisper import WHISPER

METHODS: Final[dict[str, tuple[type[Params], type[Result]]]] = {
    "hello": (HelloParams, HelloResult),
    **AGENT,
    **WHISPER,
    **LOOKING,
    **ADMIN,
    **SYNC,
    **HISTORY,
    **JOBS,
    **MAINTENANCE,
}
"""The methods of this protocol, with the Structs of their parameters and results."""
