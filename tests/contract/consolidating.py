"""What the tests of consolidating share: memories near each other, and a judge that says what a test wants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ormahd.jobs.consolidation.change import TAG
from ormahd.jobs.consolidation.job import Consolidator
from ormahd.judge.port import ShownMemory, Summary
from ormahd.model.node import NodeType
from tests.jobs_house import JobsHouse
from tests.jobs_judge import ScriptedJudge

JOB = Consolidator()
DEPLOYS = (
    ("Payments deploy day", "Deploys of the payments service run every Tuesday at 14:00."),
    ("Payments deploy tool", "Deploys of the payments service run through ArgoCD every Tuesday."),
    ("Payments deploy veto", "Deploys of the payments service run every Tuesday unless Ana objects."),
)
"""Near each other by their words; together they hold a time and two names."""


def deploys(house: JobsHouse, **more: Any) -> list[str]:
    wish = {"space": "shop", **more}
    return [house.remember(content, title=title, **wish) for title, content in DEPLOYS]


def united(house: JobsHouse) -> list[str]:
    return [row.id for row in house.ormah.index.notes(house.ormah.index.ids()).values() if TAG in row.tags]


@dataclass
class Says(ScriptedJudge):
    """Answers summaries as the test says: a function of the cluster, or an exception."""

    says: Callable[[Sequence[ShownMemory]], Any] = lambda cluster: None

    def summaries(self, clusters: Sequence[Sequence[ShownMemory]]) -> Sequence[Summary | None]:
        answers = []
        for cluster in clusters:
            self.asked.append(("summaries", tuple(one.title or "" for one in cluster)))
            answers.append(self.says(cluster))
        return answers


def whole(cluster: Sequence[ShownMemory], **other: Any) -> Summary:
    """A summary that says everything."""
    wish: dict[str, Any] = {
        "title": "Payments deploys", "content": "\n".join(one.content for one in cluster), "type": NodeType.PROCEDURE,
        "reason": "one service",
    }  # fmt: skip
    return Summary(**(wish | other))


def near(title: str, **more: Any) -> dict[str, Any]:
    return {"title": title, "content": f"The nightly backup of the build server goes to bucket {title}.", **more}
