"""Load the settings: defaults, then `config.toml`, then `ORMAH_*`, then flags. Each value's origin is recorded.

Settings of earlier versions are never an error: `config check` names them and says what became of each.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tomllib
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from msgspec import Struct
from pydantic import BaseModel, ValidationError

from ormahd import paths
from ormahd.errors import BadRequest, Conflict, NotFound, either, faults, near, shown
from ormahd.settings import Settings

FORMER: dict[str, str] = {
    "search.min_pool": "always at least 100 candidates of each kind are gathered",
    "search.rerank_pool": "always 100 candidates are compared token by token",
    "search.late_weight": "the weight of late interaction in the similarity is always 0.6",
    "search.cosine_weight": "the weight of the cosine in the similarity is always 0.25",
    "search.words_weight": "the weight of common words in the similarity is always 0.15",
    "search.words_half": "a bm25 score of 20 always counts as 0.5",
    "search.moment_weight": "the best memory of a conversation always raises the others with a weight of 0.2",
    "search.moment_minutes": "memories stored within 30 minutes always count as one conversation",
    "search.brevity_tokens": "the score of a note with n tokens is always multiplied by n / (n + 3)",
    "search.length_chance": "the correction for a note's length is always 0.1 for each factor of e",
    "search.fts_only_dampening": "the score of a candidate without any similarity is always halved",
    "search.rrf_min_spread_ratio": "fused scores are always normalised if their spread is at least 0.05",
    "search.period_boost": "a memory of the period that a query names always scores a tenth more",
    "search.recency_boost": "recent access always adds at most 0.05",
    "search.recency_half_life_days": "the boost for recent access always halves in 7 days",
    "search.access_boost": "frequent use always adds at most 0.05",
    "whisper.full_nodes": "the first two memories are always quoted in full",
    "whisper.content_characters": "a memory's content is always cut at 600 characters",
    "whisper.pool": "always 30 candidates are judged",
    "whisper.temporal_relevance": "for prompts that ask for a time the gate is always 0.30",
    "whisper.crowding": "the gate always rises by 0.0125 with each memory that is chosen",
    "whisper.companions": "a memory whose relevance is 0.12 below the best is always dropped",
    "whisper.preference_gate": "the gate for standing preferences is always 0.42",
    "whisper.topic_cosine": "a memory without a common word always needs a cosine of 0.55",
    "whisper.other_spaces": "the relevance of a memory of another space is always halved",
    "whisper.elsewhere_margin": "the best memory of this space may always be 0.02 below that of another space",
    "whisper.buffer_size": "the last 5 prompts of a session are always remembered",
    "embedding.batch_size": "a forward pass of the model always has 32 texts",
    "embedding.max_pieces": "always at most 64 pieces of a long note are embedded",
    "embedding.late_dimensions": "token vectors always have 256 dimensions",
    "vectors.search_ef": "Chroma's graph always keeps 200 candidates during a search",
    "decay.important": "a memory always counts as important from an importance of 0.5",
    "decay.important_days": "importance always delays fading for 90 days after a memory was last found or opened",
    "jobs.max_proposals": "always at most 200 proposals are shown at a time",
    "maintenance.clusters": "4 clusters are handed out at once, always",
    "maintenance.characters": "40,000 characters of JSON are handed out, always",
    "maintenance.receipt_minutes": "results are always accepted for 60 minutes",
    "maintenance.seconds": "the search for candidates always takes at most 30 seconds",
    "consolidating.similarity": "memories with a cosine of at least 0.6 are always shown to the judge together",
    "consolidating.max_clusters": "a run always plans at most 10 consolidations",
    "merging.neighbours": "a memory is always compared with its 6 nearest",
    "merging.least_cosine": "memories with a cosine below 0.25 are never compared",
    "merging.least_likeness": "a judge is always asked from a similarity score of 0.6",
    "merging.propose_likeness": "a pair is always proposed from a similarity score of 0.65",
    "daemon.max_clients": "at most 128 connections are open; for a further one the longest idle is closed",
    "daemon.frame_bytes": "the body of a frame always has at most 16 MiB",
    "daemon.idle_seconds": "an idle connection stays open",
    "daemon.slow_seconds": "a connection that takes more than 30 seconds for one frame is always closed",
    "daemon.drain_seconds": "running requests always have 10 seconds to finish when the daemon stops",
    "jobs.duplicate_merger_hours": "jobs.nightly_hours sets when it runs; `ormahctl jobs pause` turns it off",
    "jobs.conflict_detector_hours": "jobs.nightly_hours sets when it runs; `ormahctl jobs pause` turns it off",
    "jobs.auto_linker_hours": "jobs.nightly_hours sets when it runs; `ormahctl jobs pause` turns it off",
    "jobs.auto_cluster_hours": "jobs.nightly_hours sets when it runs; `ormahctl jobs pause` turns it off",
    "jobs.consolidator_hours": "jobs.nightly_hours sets when it runs; `ormahctl jobs pause` turns it off",
    "jobs.decay_manager_hours": "jobs.nightly_hours sets when it runs; `ormahctl jobs pause` turns it off",
    "search.vector_weight": "the weight of vector search in rank fusion is always 0.6",
    "search.fts_weight": "the weight of full-text search in rank fusion is always 0.4",
    "search.rrf_k": "the constant of reciprocal rank fusion is always 60",
    "search.similarity_threshold": "a memory with a cosine below 0.1 is never a candidate",
    "search.similarity_blend_weight": "the share of the similarity in a score is always 0.98",
    "search.length_penalty_threshold": "the correction for a note's length always begins at 600 characters",
    "search.question_fts_weight_scale": "questions always have the same weights in rank fusion",
    "search.question_vector_weight_scale": "questions always have the same weights in rank fusion",
    "search.question_similarity_blend_weight": "for questions the similarity alone is always the score",
    "search.title_match_boost": "words in the title always add at most a boost of 2",
    "search.tier_boost_core": "memories in core always score a tenth more",
    "search.tier_boost_archival": "archived memories always score a tenth less",
    "space.boost_global": "memories without a space always count in full",
    "whisper.min_relevance": "candidates below a relevance of 0.10, or below whisper.injection_gate if that is lower, are dropped early",
    "whisper.log_relevance": "candidates are always logged from a relevance of 0.07, or from whisper.injection_gate if that is lower",
    "whisper.session_gap_minutes": "a prompt older than 10 minutes never counts as context of the next one",
    "whisper.intent_threshold": "a cosine of 0.55 always classifies a prompt; it is converted to the scale of another model",
    "whisper.topic_shift_threshold": "the topic always counts as the same from a cosine of 0.75; it is converted to the scale of another model",
    "affinity.implicit_weight": "a judgement that was inferred always weighs 0.8",
    "linking.neighbours": "a memory is always linked to at most 6 neighbours; with linking.similarity = 1 it is linked to none",
    "decay.archive_below": "the lease of a used memory always ends at a retrievability of 0.3",
    "jobs.catch_up_seconds": "a run that was missed is always made up for 2 minutes after the start",
    "jobs.max_share": "a run of a job always changes at most a tenth of the memories, but at least 20",
    "jobs.judge_questions": "a run of a job always asks the judge at most 200 questions; judge.calls_a_day limits the cost",
    "jobs.importance_scorer_hours": "it runs every 2 hours; `ormahctl jobs pause` turns it off",
    "jobs.index_updater_hours": "it runs every hour, and vault.scan_seconds sets when the vault is scanned besides",
    "maintenance.pairs": "8 pairs of each kind are handed out at once, always",
    "daemon.threads": "8 questions are always answered at the same time",
    "activation.decay": "half of the activation is always passed on along an edge",
    "activation.seed_count": "activation always spreads from the best 5 results",
    "activation.max_per_seed": "each of the best results always adds at most 3 neighbours",
    "search.min_result_score": "results below a score of 0.1 are always dropped",
    "search.tier_boost_working": "memories in working never get a boost",
    "decay.days": "decay.event_days, decay.fact_days and decay.decision_days set it for each type",
    "embedding.question_precision": "embedding.precision sets it, for questions and notes alike",
    "linking.cross_space_penalty": "0.1 is always subtracted from the cosine of memories of two spaces",
}
"""Settings of earlier versions: `group.name` -> how Ormah behaves without it (a sentence without its full stop)."""


OUTSIDE = frozenset({"ORMAH_SOCKET", "ORMAH_SPACE", "ORMAH_CONFIG", "ORMAH_VAULT", "ORMAH_JUDGING"})
"""Valid `ORMAH_*` variables that are not of the form `ORMAH_<GROUP>_<SETTING>`: the client's socket, the caller's
space, the configuration file, the vault, and the mark of a command that runs as the judge (`judge.own_sessions`)."""


_DEFAULTS = Settings()


class Config(Struct, frozen=True):
    """The settings in use, the configuration file, and where each setting was set.

    `origins`: `group.name` -> what set it (the file's path, an environment variable, or "flag"). Defaults have none.
    """

    settings: Settings
    file: Path
    origins: Mapping[str, str]
    former: Mapping[str, str]
    """Settings of earlier versions that are still set: `group.name` -> where, as in `origins`. They have no effect."""

    def origin(self, key: str) -> str:
        return self.origins.get(key, "default")


def keys() -> Iterator[tuple[str, str]]:
    """Yield every setting as (group, name), in the order in which `Settings` defines them."""
    for group, field in Settings.model_fields.items():
        annotation = field.annotation
        assert isinstance(annotation, type)
        assert issubclass(annotation, BaseModel)
        for name in annotation.model_fields:
            yield group, name


def chosen(key: str | None) -> list[tuple[str, str]]:
    """Return settings as (group, name): the one named `key` (`group.name`), those of the group `key`, or all (None).

    Raises:
        NotFound: there is no such setting or group. For a setting of an earlier version, the message says what
        replaces it.
    """
    known = list(keys())
    some = [one for one in known if key is None or key in {one[0], ".".join(one)}]
    if key is not None and not some:
        if key in FORMER:
            raise NotFound(_became(key), hint="ormahctl config show lists all")
        of_another = [f"{group}.{name}" for group, name in known if name == key.rpartition(".")[2]]
        close = of_another[:2] or get_close_matches(key, [*map(".".join, known), *dict(known)], 2)
        hint = f"did you mean {either(close)}?" if close else "ormahctl config show lists all"
        raise NotFound(f"there is no setting {key!r}", hint=hint)
    return some


def _became(key: str) -> str:
    """Return the message that says what replaces `key`, a setting of an earlier version."""
    return f"{key} is no setting any more: {FORMER[key]}"


def load(
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Config:
    """Read and validate the configuration.

    `flags` maps dotted keys (`vault.path`) to values; None values are ignored.

    Raises:
        BadRequest: names the invalid setting, where it was set, and what is allowed. If there are several, the message
            names the first, and `data["faults"]` has all.
    """
    environ = os.environ if environ is None else environ
    chosen = file or (Path(environ["ORMAH_CONFIG"]) if environ.get("ORMAH_CONFIG") else None)
    path = chosen or paths.config_file()
    found = _FoundSettings({}, {}, [], {})
    _from_file(found, path, must_exist=chosen is not None)
    _from_environ(found, environ)
    for key, value in (flags or {}).items():
        if value is not None:
            found.set(key, value, "flag")
    settings = _checked(found)
    if settings is None or found.faults:
        first = found.faults[0]
        all_of_them = [{"what": one.message, "mend": one.hint or ""} for one in found.faults]
        more = len(found.faults) - 1
        said = f" (and {more} more: ormahctl config check)" if more else ""
        data = {"faults": all_of_them, "former": found.former}
        raise BadRequest(first.message + said, hint=first.hint, data=data) from first.__cause__
    return Config(settings, path, found.origins, found.former)


class _FoundSettings(Struct):
    """The settings found in the configuration file, the environment and the command-line flags, before they are
    validated. `values`: group -> name -> value; `faults`: the errors that were found; the others as in `Config`."""

    values: dict[str, dict[str, Any]]
    origins: dict[str, str]
    faults: list[BadRequest]
    former: dict[str, str]

    def set(self, key: str, value: Any, origin: str) -> None:
        group, name = key.split(".", 1)
        self.values.setdefault(group, {})[name] = value
        self.origins[key] = origin


def _from_file(found: _FoundSettings, path: Path, *, must_exist: bool) -> None:
    known = set(keys())
    groups = {group for group, _ in known}
    try:
        document = _read(path, must_exist=must_exist)
    except BadRequest as exc:
        found.faults.append(exc)
        return
    for group, table in document.items():
        if not isinstance(table, dict):
            if group in groups:
                what, hint = f"{path}: '{group}' must be a table ([{group}])", "run: ormahctl config default"
            else:
                what, hint = f"{path}: there is no setting '{group}'", _meant(group, known)
            found.faults.append(BadRequest(what, hint=hint))
            continue
        for name, value in table.items():
            if (group, name) in known:
                found.set(f"{group}.{name}", value, str(path))
            elif f"{group}.{name}" in FORMER:
                found.former[f"{group}.{name}"] = str(path)
            else:
                what = f"{path}: there is no setting '{group}.{name}'"
                found.faults.append(BadRequest(what, hint=_meant(f"{group}.{name}", known)))


def _from_environ(found: _FoundSettings, environ: Mapping[str, str]) -> None:
    names = {f"ORMAH_{group}_{name}".upper(): f"{group}.{name}" for group, name in keys()}
    names |= {"ORMAH_VAULT": "vault.path", "ORMAH_SOCKET": "daemon.socket"}
    former = {f"ORMAH_{key.replace('.', '_')}".upper(): key for key in FORMER}
    for variable, text in environ.items():
        if not text and variable in {"ORMAH_VAULT", "ORMAH_SOCKET", "ORMAH_VAULT_PATH", "ORMAH_DAEMON_SOCKET"}:
            continue  # an empty variable counts as unset, as in `paths.find_socket`
        if variable in names:
            found.set(names[variable], text or None, variable)
        elif variable in former:
            found.former[former[variable]] = variable
        elif variable.startswith("ORMAH_") and variable not in OUTSIDE:
            meant = near(variable, [*names, *OUTSIDE])
            hint = f"did you mean {meant}?" if meant else "run: ormahctl config default"
            found.faults.append(BadRequest(f"{variable} in the environment is no setting", hint=hint))


def _checked(found: _FoundSettings) -> Settings | None:
    """Return the validated settings. If a value is not allowed, append the errors to `found.faults` and return None."""
    unset = {key for key in keys() if getattr(getattr(_DEFAULTS, key[0]), key[1]) is None}
    values = {
        group: {
            name: value
            for name, value in table.items()
            if value is not None and not (value == "" and (group, name) in unset)  # as `default_document` writes it
        }
        for group, table in found.values.items()
    }
    try:
        return Settings.model_validate(values)
    except ValidationError as exc:
        for one in faults(exc):
            group, _, name = one.key.partition(".")
            key = f"{group}.{name.partition('[')[0].partition('.')[0]}"
            origin = found.origins.get(key, "the defaults")
            what = f"{key}: {one.what}" if origin == "flag" else f"{key} (in {origin}): {one.what}"
            wrong = BadRequest(what, hint=one.hint or f"it is {_reason(key)}")
            wrong.__cause__ = exc
            found.faults.append(wrong)
        return None


def _meant(key: str, known: Collection[tuple[str, str]]) -> str:
    """Return the hint for `key`, which is no setting: an existing one with a similar name or the same last part."""
    whole = {f"{group}.{name}" for group, name in known}
    last = key.rpartition(".")[2]
    of_another = [one for one in whole if one.rpartition(".")[2] == last]
    meant = of_another[0] if len(of_another) == 1 else near(key, whole) or near(key, {group for group, _ in known})
    return f"did you mean {meant}?" if meant else "run: ormahctl config default"


def _reason(key: str) -> str:
    """Return the default and the description of the setting `key`, for a hint."""
    group, _, name = key.partition(".")
    model = getattr(Settings(), group)
    value = getattr(model, name)
    return f"{shown(value) if value is not None else 'unset'} by default: {type(model).model_fields[name].description}"


def _read(path: Path, *, must_exist: bool) -> dict[str, Any]:
    try:
        return tomllib.loads(paths.read_text(path))
    except (FileNotFoundError, NotADirectoryError):
        if must_exist:
            raise BadRequest(
                f"there is no configuration file {path}",
                hint="make it (an empty one has all defaults), or name no file",
            ) from None
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise BadRequest(f"{path} is not valid TOML: {exc}") from exc
    except OSError as exc:
        raise BadRequest(f"{path} cannot be read: {exc.strerror}") from exc


def set_setting(key: str, text: str) -> Config:
    """Check one setting and write it into the configuration file. `text`: the value in TOML; strings need no quotes.

    Raises:
        BadRequest: there is no such setting, the value is not allowed, or the file cannot be changed.
        Conflict: the environment sets it, and wins over the file.
    """
    if key in FORMER:
        raise BadRequest(_became(key), hint="ormahctl config show lists all")
    if tuple(key.split(".", 1)) not in set(keys()):
        raise BadRequest(f"there is no setting {key!r}", hint="ormahctl config show lists all")
    now = load()
    origin = now.origin(key)
    if origin not in {"default", str(now.file)}:
        raise Conflict(f"{origin} sets {key}, and wins over the file", hint=f"unset {origin} first")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    load(flags={key: value})
    write_setting(now.file, key, value)
    return load()


def write_setting(file: Path, key: str, value: Any) -> None:
    """Set one setting in the configuration file; nothing else in it changes. A missing file is created.

    Raises BadRequest if the file is not valid TOML, or cannot be written.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    group, _, name = key.partition(".")
    _read(file, must_exist=False)
    before = file.read_bytes() if file.exists() else b""
    try:
        document = tomlkit.parse(before.decode("utf-8-sig"))
        table = document.setdefault(group, tomlkit.table())
        table[name] = value
        after = tomlkit.dumps(document).encode()
    except (TOMLKitError, TypeError) as exc:
        raise BadRequest(f"{file} cannot be changed: {exc}", hint=f"set {key} by hand") from exc
    new = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new.write_bytes(after)
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(file, new)
        new.replace(file.resolve())  # a symlink stays one
    except OSError as exc:
        raise BadRequest(f"{file} cannot be written: {exc.strerror}", hint=f"set {key} by hand") from exc
    finally:
        new.unlink(missing_ok=True)


def default_document() -> str:
    """Return a `config.toml` with every setting commented out, with its default and description."""
    import tomlkit

    lines: list[str] = ["# Ormah's settings and their defaults. Take the # off a line to change it."]
    groups = Settings()
    for group, field in Settings.model_fields.items():
        lines += ["", f"[{group}]"]
        model = getattr(groups, group)
        assert field.annotation is not None
        for name, setting in type(model).model_fields.items():
            value = getattr(model, name)
            shown = '""' if value is None else tomlkit.item(value).as_string()
            lines += [f"# {setting.description}", f"# {name} = {shown}"]
    return "\n".join(lines) + "\n"


def markdown_table() -> str:
    """Return the table of settings of docs/configuration.md."""
    rows = ["| setting | default | what it is for |", "|---|---|---|"]
    groups = Settings()
    for group, name in keys():
        model = getattr(groups, group)
        value = getattr(model, name)
        shown = "unset" if value is None else f"`{str(value).lower() if isinstance(value, bool) else value}`"
        rows.append(f"| `{group}.{name}` | {shown} | {type(model).model_fields[name].description} |")
    return "\n".join(rows)


def refresh_page(path: Path) -> bool:
    """Write the table of settings into the page `path`, in place of all that follows the line that marks it as
    generated. Return True if that changed the page."""
    mark = "<!-- generated by `python -m ormahd.config`: do not edit below -->\n"
    text = path.read_text("utf-8")
    head, found, _ = text.partition(mark)
    if not found:
        raise BadRequest(f"{path} has no line {mark.strip()!r}", hint="put it where the table belongs")
    fresh = f"{head}{mark}\n{markdown_table()}\n"
    if fresh != text:
        path.write_text(fresh, "utf-8")
    return fresh != text


if __name__ == "__main__":
    refresh_page(Path(__file__).parents[1] / "docs" / "configuration.md")
