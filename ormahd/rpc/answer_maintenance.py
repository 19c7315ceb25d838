"""`agent.maintenance`: an agent judges what the jobs found, in two phases."""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from ormahd import api
from ormahd.actions.caller import Caller
from ormahd.actions.views import iso
from ormahd.errors import BadRequest
from ormahd.jobs.maintenance.maintenance import Maintenance
from ormahd.rpc.handling import Handler, ProgressFn, result, steps

LISTS = ("edges", "merges", "consolidations", "conflicts")


class MaintenanceMethods:
    """One method here answers one method of the wire; nothing is decided."""

    def __init__(self, maintenance: Maintenance) -> None:
        self._maintenance = maintenance

    def table(self) -> dict[str, Handler]:
        return {"agent.maintenance": self.maintenance}

    def maintenance(self, params: api.MaintenanceParams, caller: Caller, progress: ProgressFn) -> api.Result:
        given = {name: getattr(params, name) for name in LISTS if getattr(params, name) is not None}
        if params.receipt is None and params.results is None and not given:
            return self._hand_out(progress)
        receipt, lists = params.receipt, given
        if params.results is not None:
            if given:
                raise BadRequest("results stand both in `results` and beside it", hint="put all of them in one place")
            receipt, lists = _unwrapped(params.results, receipt)
        if not isinstance(receipt, str) or not receipt:
            raise BadRequest(
                "results without the receipt of what was judged", hint="send `receipt` as phase one gave it"
            )
        return self._settle(receipt, lists, caller)

    def _hand_out(self, progress: ProgressFn) -> api.Result:
        handed = self._maintenance.hand_out(steps(progress))
        fields = {
            "status": "issued", "receipt": handed.receipt, "expires": iso(handed.expires), "summary": handed.summary,
        }  # fmt: skip
        return result({**fields, **handed.batches}, api.MaintenanceResult)

    def _settle(self, receipt: str, lists: dict[str, Any], caller: Caller) -> api.Result:
        done = self._maintenance.settle(receipt, lists, caller)
        return api.MaintenanceResult(
            status="applied", receipt=done.receipt, run=done.run, commits=done.commits,
            summary=api.MaintenanceCounts(**done.summary),
            refused=[api.RefusedItem(**asdict(one)) for one in done.refused],
        )  # fmt: skip


def _unwrapped(results: dict[str, Any], receipt: str | None) -> tuple[Any, dict[str, Any]]:
    unknown = sorted(results.keys() - {"receipt", *LISTS})
    if unknown:
        raise BadRequest(
            f"results: there is no list '{unknown[0][:100]}'", hint="there are: receipt, " + ", ".join(LISTS)
        )
    inner = results.get("receipt")
    if receipt is not None and inner is not None and inner != receipt:
        raise BadRequest("two different receipts", hint="send the one that phase one gave")
    return inner or receipt, {name: results[name] for name in LISTS if results.get(name) is not None}
