"""The parameters and results of every method, one Struct each. Uses only msgspec, because clients import it too.

Each module holds one family of methods; this one collects them in `METHODS`.
"""

from __future__ import annotations

from typing import Final

from ormahd.api.admin import *  # noqa: F403
from ormahd.api.admin import ADMIN
from ormahd.api.agent import *  # noqa: F403
from ormahd.api.agent import AGENT
from ormahd.api.base import *  # noqa: F403  # noqa: F403
from ormahd.api.base import LOOKING, HelloParams, HelloResult, Params, Result
from ormahd.api.events import *  # noqa: F403
from ormahd.api.events import EVENTS
from ormahd.api.history import *  # noqa: F403  # noqa: F403
from ormahd.api.history import HISTORY, SYNC
from ormahd.api.ingest import *  # noqa: F403
from ormahd.api.ingest import INGEST
from ormahd.api.jobs import *  # noqa: F403  # noqa: F403
from ormahd.api.jobs import JOBS, MAINTENANCE
from ormahd.api.ui import *  # noqa: F403
from ormahd.api.ui import UI
from ormahd.api.whisper import *  # noqa: F403
from ormahd.api.whisper import WHISPER

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
    **INGEST,
    **UI,
    **EVENTS,
}
"""All methods of the protocol, with the Structs of their parameters and results."""
