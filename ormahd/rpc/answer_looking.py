"""`agent.list`, `agent.whispers`, `agent.spaces`: lists to look through; and which space a project has."""

from __future__ import annotations

from ormahd import api
from ormahd.actions import listing, projects
from ormahd.actions.caller import Caller, check_space
from ormahd.errors import BadRequest
from ormahd.model.node import Narrowing
from ormahd.ormah import Ormah
from ormahd.rpc.handling import Handler, ProgressFn, checked, result


class LookingMethods:
    """One method here answers one method of the wire; nothing is decided."""

    def __init__(self, ormah: Ormah) -> None:
        self.ormah = ormah

    def table(self) -> dict[str, Handler]:
        return {
            "agent.list": self.list,
            "agent.whispers": self.whispers,
            "agent.spaces": self.spaces,
            "agent.assign_space": self.assign_space,
        }

    def spaces(self, _params: api.NoParams, caller: Caller, _: ProgressFn) -> api.Result:
        return result(projects.listed(self.ormah, caller), api.SpacesResult)

    def assign_space(self, params: api.AssignSpaceParams, caller: Caller, _: ProgressFn) -> api.Result:
        space = check_space(params.space)
        if space is None:
            raise BadRequest(
                "a project's space has a name", hint="--global says of one memory that it is of no project"
            )
        return result(projects.assign(self.ormah, caller, space), api.AssignSpaceResult)

    def list(self, params: api.ListParams, _caller: Caller, _: ProgressFn) -> api.Result:
        narrowing = checked(
            Narrowing,
            {
                "types": params.types, "tiers": params.tiers, "spaces": params.spaces, "tags": params.tags,
                "created_after": params.created_after, "created_before": params.created_before,
            },
        )  # fmt: skip
        return result(listing.newest(self.ormah, narrowing, params.limit), api.ListResult)

    def whispers(self, params: api.WhispersParams, _caller: Caller, _: ProgressFn) -> api.Result:
        times = checked(Narrowing, {"created_after": params.since, "created_before": params.before})
        found = listing.whispered(
            self.ormah, since=times.created_after, before=times.created_before, space=params.space, limit=params.limit
        )
        return api.WhispersResult(whispers=[result(one, api.WhisperedPrompt) for one in found])
