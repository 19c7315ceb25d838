"""The parameters and results of every method, one Struct each. Uses only msgspec, because clients import it too.

Each module holds one family of methods; this one collects them in `METHODS`.
"""
# ruff: noqa: F403, F405

from __future__ import annotations

from typing import Final

from ormahd.api.admin import *
from ormahd.api.agent import *
from ormahd.api.base import *
from ormahd.api.base import NoParams, Params, Result
from ormahd.api.events import *
from ormahd.api.history import *
from ormahd.api.ingest import *
from ormahd.api.jobs import *
from ormahd.api.ui import *
from ormahd.api.whisper import *
from ormahd.api.work import *

METHODS: Final[dict[str, tuple[type[Params], type[Result]]]] = {
    "hello": (HelloParams, HelloResult),
    "agent.remember": (RememberParams, RememberResult),
    "agent.recall": (RecallParams, RecallResult),
    "agent.get": (NodeParams, NodeResult),
    "agent.update": (UpdateParams, WriteResult),
    "agent.forget": (ForgetParams, WriteResult),
    "agent.outdated": (OutdatedParams, WriteResult),
    "agent.connect": (ConnectParams, WriteResult),
    "agent.undo_merge": (UndoMergeParams, UndoMergeResult),
    "agent.merges": (MergesParams, MergesResult),
    "agent.audit": (AuditParams, AuditResult),
    "agent.insights": (InsightsParams, InsightsResult),
    "agent.whisper": (WhisperParams, WhisperResult),
    "agent.feedback": (FeedbackParams, FeedbackResult),
    "agent.list": (ListParams, ListResult),
    "agent.whispers": (WhispersParams, WhispersResult),
    "agent.spaces": (NoParams, SpacesResult),
    "agent.assign_space": (AssignSpaceParams, AssignSpaceResult),
    "admin.health": (NoParams, HealthResult),
    "admin.stats": (StatsParams, StatsResult),
    "admin.rebuild": (NoParams, RebuildResult),
    "admin.verify": (NoParams, VerifyResult),
    "admin.doctor": (DoctorParams, DoctorResult),
    "admin.import": (ImportParams, ImportResult),
    "admin.export": (ExportParams, ExportResult),
    "admin.purge": (PurgeParams, PurgeResult),
    "history.list": (HistoryParams, HistoryResult),
    "history.months": (HistoryParams, MonthsResult),
    "history.show": (ShowOpParams, ShowOpResult),
    "history.life": (LifeParams, LifeResult),
    "history.undo": (UndoParams, UndoResult),
    "admin.sync": (NoParams, SyncResult),
    "admin.sync_setup": (SyncSetupParams, SyncSetupResult),
    "admin.sync_conflicts": (NoParams, ConflictsResult),
    "admin.sync_resolve": (ResolveConflictParams, ResolveConflictResult),
    "admin.sync_take_back": (ResolveConflictParams, TakeBackResult),
    "admin.judge_test": (NoParams, JudgeTestResult),
    "admin.tasks": (NoParams, TasksResult),
    "admin.run_task": (RunTaskParams, RunTaskResult),
    "admin.run_all": (RunAllParams, RunAllResult),
    "admin.pause": (TaskParams, PausedResult),
    "admin.resume": (TaskParams, PausedResult),
    "admin.pause_all": (NoParams, PausedResult),
    "admin.resume_all": (NoParams, PausedResult),
    "agent.proposals": (ProposalsParams, ProposalsResult),
    "agent.resolve_proposal": (ResolveProposalParams, ResolveProposalResult),
    "agent.maintenance": (MaintenanceParams, MaintenanceResult),
    "ingest.look": (IngestPathParams, IngestPathResult),
    "ingest.sessions": (IngestFileParams, IngestedFile),
    "ingest.conversation": (IngestConversationParams, IngestedFile),
    "ingest.file": (IngestDocumentParams, IngestedDocument),
    "ingest.past": (PastParams, PastResult),
    "ingest.backfill": (BackfillParams, BackfillResult),
    "ingest.sources": (SourcesParams, SourcesResult),
    "agent.sessions": (SessionsParams, SessionsResult),
    "agent.work": (WorkParams, WorkResult),
    "agent.where": (NoParams, WhereResult),
    "ui.graph": (GraphParams, GraphResult),
    "ui.node": (GraphNodeParams, GraphNodeResult),
    "ui.search": (UiSearchParams, RecallResult),
    "ui.insights": (InsightsParams, InsightsResult),
    "events.subscribe": (SubscribeParams, SubscribeResult),
}
"""All methods of the protocol, with the Structs of their parameters and results."""
