"""Every setting: its default, unit, bounds and reason. Loading and layering: `config.py`.

A number that users may wish to move lives here; a number that belongs to an algorithm lives beside it.
The table in docs/configuration.md is generated from these descriptions (`ormahd config default`).
"""

from __future__ import annotations

from ormahd.settings.base import Group
from ormahd.settings.daemon import DaemonSettings, LogSettings, SyncSettings
from ormahd.settings.decay import DecaySettings
from ormahd.settings.jobs import JobSettings, MaintenanceSettings
from ormahd.settings.merging import MergingSettings
from ormahd.settings.search import ActivationSettings, SearchSettings, SpaceSettings
from ormahd.settings.vault import (
    EmbeddingSettings,
    LinkingSettings,
    SecretSettings,
    TierSettings,
    VaultSettings,
    VectorSettings,
)
from ormahd.settings.whisper import AffinitySettings, FeedbackSettings, WhisperSettings

__all__ = [
    "ActivationSettings", "AffinitySettings", "DaemonSettings", "DecaySettings", "EmbeddingSettings", "FeedbackSettings", "Group",
    "JobSettings", "LinkingSettings", "LogSettings", "MaintenanceSettings", "MergingSettings", "SearchSettings", "SecretSettings", "Settings", "SpaceSettings", "SyncSettings",
    "TierSettings", "VaultSettings", "VectorSettings", "WhisperSettings",
]  # fmt: skip


class Settings(Group):
    """The whole configuration. Frozen; a change needs a restart."""

    vault: VaultSettings = VaultSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    vectors: VectorSettings = VectorSettings()
    search: SearchSettings = SearchSettings()
    space: SpaceSettings = SpaceSettings()
    activation: ActivationSettings = ActivationSettings()
    whisper: WhisperSettings = WhisperSettings()
    affinity: AffinitySettings = AffinitySettings()
    feedback: FeedbackSettings = FeedbackSettings()
    linking: LinkingSettings = LinkingSettings()
    tiers: TierSettings = TierSettings()
    decay: DecaySettings = DecaySettings()
    jobs: JobSettings = JobSettings()
    maintenance: MaintenanceSettings = MaintenanceSettings()
    merging: MergingSettings = MergingSettings()
    secrets: SecretSettings = SecretSettings()
    sync: SyncSettings = SyncSettings()
    daemon: DaemonSettings = DaemonSettings()
    log: LogSettings = LogSettings()
