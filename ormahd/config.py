"""Load the settings: defaults, then `config.toml`, then `ORMAH_*`, then flags. Each value's origin is recorded."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import tomllib
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from msgspec import Struct
from pydantic import BaseModel, ValidationError

from ormahd import paths
from ormahd.errors import Ambiguous, BadRequest, Conflict, NotFound, either, faults, near, quote_value
from ormahd.settings import Settings
from ormahd.settings.learning import SourceFolder

OUTSIDE = frozenset({"ORMAH_SOCKET", "ORMAH_SPACE", "ORMAH_CONFIG", "ORMAH_VAULT", "ORMAH_JUDGING"})
"""Valid `ORMAH_*` variables that are not of the form `ORMAH_<GROUP>_<SETTING>`: the client's socket, the caller's
space, the configuration file, the vault, and the mark of a command that runs as the judge (`judge.own_sessions`)."""


_DEFAULTS = Settings()
SOURCES = "sources"
"""The tables of the configuration file that name folders of the person. They have no variable in the environment."""


class Config(Struct, frozen=True):
    """The settings in use, the configuration file, and where each setting was set.

    `origins`: `group.name` -> what set it (the file's path, an environment variable, or "flag"). Defaults have none.
    """

    settings: Settings
    file: Path
    origins: Mapping[str, str]

    def origin(self, key: str) -> str:
        """Return what set a setting (`group.name`): a file, a variable or a flag; "default" if nothing did."""
        return self.origins.get(key, "default")


def keys() -> Iterator[tuple[str, str]]:
    """Yield every setting as (group, name), in the order in which `Settings` defines them."""
    for group, field in Settings.model_fields.items():
        if group == SOURCES:
            continue
        annotation = field.annotation
        assert isinstance(annotation, type)
        assert issubclass(annotation, BaseModel)
        for name in annotation.model_fields:
            yield group, name


def chosen(key: str | None) -> list[tuple[str, str]]:
    """Return settings as (group, name): the one named `key` (`group.name`), those of the group `key`, or all (None).

    Raises:
        NotFound: there is no such setting or group.
    """
    known = list(keys())
    found = [one for one in known if key is None or key in {one[0], ".".join(one)}]
    if key is not None and not found:
        of_another = [f"{group}.{name}" for group, name in known if name == key.rpartition(".")[2]]
        close = of_another[:2] or get_close_matches(key, [*map(".".join, known), *dict(known)], 2)
        hint = f"did you mean {either(close)}?" if close else "ormahctl config show lists all"
        raise NotFound(f"there is no setting {key!r}", hint=hint)
    return found


def load(
    file: Path | None = None, environ: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
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
    found = _FoundSettings({}, {}, [])
    _add_file(found, path, must_exist=chosen is not None)
    _add_environment(found, environ)
    for key, value in (flags or {}).items():
        if value is not None:
            found.set(key, value, "flag")
    settings = _checked(found)
    if settings is None or found.faults:
        first = found.faults[0]
        all_of_them = [{"what": one.message, "mend": one.hint or ""} for one in found.faults]
        more = len(found.faults) - 1
        more_faults = f" (and {more} more: ormahctl config check)" if more else ""
        data = {"faults": all_of_them}
        raise BadRequest(first.message + more_faults, hint=first.hint, data=data) from first.__cause__
    return Config(settings, path, found.origins)


class _FoundSettings(Struct):
    """The settings found in the configuration file, the environment and the command-line flags, before they are
    validated. `values`: group -> name -> value; `faults`: the errors that were found; the others as in `Config`."""

    values: dict[str, dict[str, Any]]
    origins: dict[str, str]
    faults: list[BadRequest]
    sources: object = ()

    def set(self, key: str, value: Any, origin: str) -> None:
        """Store the value of a setting (`group.name`), and what set it."""
        group, name = key.split(".", 1)
        self.values.setdefault(group, {})[name] = value
        self.origins[key] = origin


def _add_file(found: _FoundSettings, path: Path, *, must_exist: bool) -> None:
    """Add the settings of the configuration file to `found`. Unknown names are added to its faults."""
    known = set(keys())
    groups = {group for group, _ in known}
    try:
        document = _read_tables(path, must_exist=must_exist)
    except BadRequest as exc:
        found.faults.append(exc)
        return
    for group, table in document.items():
        if group == SOURCES:
            found.sources = table
            continue
        if not isinstance(table, dict):
            if group in groups:
                what, hint = f"{path}: '{group}' must be a table ([{group}])", "run: ormahctl config default"
            else:
                what, hint = f"{path}: there is no setting '{group}'", _similar_hint(group, known)
            found.faults.append(BadRequest(what, hint=hint))
            continue
        for name, value in table.items():
            if (group, name) in known:
                found.set(f"{group}.{name}", value, str(path))
            else:
                what = f"{path}: there is no setting '{group}.{name}'"
                found.faults.append(BadRequest(what, hint=_similar_hint(f"{group}.{name}", known)))


def _add_environment(found: _FoundSettings, environ: Mapping[str, str]) -> None:
    """Add the settings of the environment variables `ORMAH_…` to `found`. Unknown ones are added to its faults."""
    names = {f"ORMAH_{group}_{name}".upper(): f"{group}.{name}" for group, name in keys()}
    names |= {"ORMAH_VAULT": "vault.path", "ORMAH_SOCKET": "daemon.socket"}
    for variable, text in environ.items():
        if not text:
            continue  # an empty variable counts as unset, as in `paths.find_socket`
        if variable in names:
            found.set(names[variable], text, variable)
        elif variable.startswith("ORMAH_") and variable not in OUTSIDE:
            meant = near(variable, [*names, *OUTSIDE])
            hint = f"did you mean {meant}?" if meant else "run: ormahctl config default"
            found.faults.append(BadRequest(f"{variable} in the environment is no setting", hint=hint))


def _checked(found: _FoundSettings) -> Settings | None:
    """Return the validated settings. If a value is not allowed, add the errors to `found.faults` and return None."""
    unset = {key for key in keys() if getattr(getattr(_DEFAULTS, key[0]), key[1]) is None}
    values: dict[str, object] = {
        group: {
            name: value
            for name, value in table.items()
            if value is not None and not (value == "" and (group, name) in unset)  # as `default_document` writes it
        }
        for group, table in found.values.items()
    }

    # Each fault names the setting, where it was set, and what is allowed
    try:
        return Settings.model_validate({**values, SOURCES: found.sources})
    except ValidationError as exc:
        for one in faults(exc):
            group, _, name = one.key.partition(".")
            if group.startswith(SOURCES):
                found.faults.append(BadRequest(f"[[{SOURCES}]]: {one.key}: {one.what}", hint="ormahctl sources --help"))
                continue
            name = name.partition("[")[0].partition(".")[0]
            key = f"{group}.{name}"
            origin = found.origins.get(key, "the defaults")
            what = f"{key}: {one.what}" if origin == "flag" else f"{key} (in {origin}): {one.what}"
            model = getattr(_DEFAULTS, group)
            value = getattr(model, name)
            default = quote_value(value) if value is not None else "unset"
            usual = f"it is {default} by default: {type(model).model_fields[name].description}"
            wrong = BadRequest(what, hint=one.hint or usual)
            wrong.__cause__ = exc
            found.faults.append(wrong)
        return None


def _similar_hint(key: str, known: Collection[tuple[str, str]]) -> str:
    """Return the hint for `key`, which is no setting: the existing setting with a similar name or the same last part."""
    whole = {f"{group}.{name}" for group, name in known}
    last = key.rpartition(".")[2]
    of_another = [one for one in whole if one.rpartition(".")[2] == last]
    meant = of_another[0] if len(of_another) == 1 else near(key, whole) or near(key, {group for group, _ in known})
    return f"did you mean {meant}?" if meant else "run: ormahctl config default"


def _read_tables(path: Path, *, must_exist: bool) -> dict[str, Any]:
    """Return the tables of a TOML file. If it does not exist, return no tables.

    Raises:
        BadRequest: the file is unreadable or invalid, or does not exist although it `must_exist`.
    """
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

    group, _, name = key.partition(".")
    with _editing(file, f"set {key} by hand") as document:
        document.setdefault(group, tomlkit.table())[name] = value


@contextlib.contextmanager
def _editing(file: Path, hint: str) -> Iterator[Any]:
    """Context manager: yield the configuration file as a document of tomlkit. At the end of the block, write the
    changed document; comments and order are kept. `hint`: what to do if that fails."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    _read_tables(file, must_exist=False)
    before = file.read_bytes() if file.exists() else b""
    try:
        document = tomlkit.parse(before.decode("utf-8-sig"))
        yield document
        after = tomlkit.dumps(document).encode()
    except (TOMLKitError, TypeError) as exc:
        raise BadRequest(f"{file} cannot be changed: {exc}", hint=hint) from exc
    new = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new.write_bytes(after)
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(file, new)
        new.replace(file.resolve())  # a symlink stays one
    except OSError as exc:
        raise BadRequest(f"{file} cannot be written: {exc.strerror}", hint=hint) from exc
    finally:
        new.unlink(missing_ok=True)


def add_source(folder: Path, space: str, include: list[str], exclude: list[str]) -> SourceFolder:
    """Add a folder to the sources in the configuration file, and return the entry.

    `space`: as `SourceFolder.space`; empty: the name of the repository around the folder, or else the folder's.
    `include`, `exclude`: patterns of file names.

    Raises:
        BadRequest: this folder cannot be a source.
    """
    import tomlkit

    now = load()
    folder = folder.resolve()
    if not folder.is_dir():
        raise BadRequest(f"{folder} is no folder", hint="name a folder with notes, such as an Obsidian vault")

    # It must share no file with Ormah's own folders or with another source
    named = now.settings.vault.path
    own_folders = {paths.expand(named) if named else paths.default_vault(), *paths.own_folders()}
    for place in (one.resolve() for one in own_folders):
        if place == folder or place in folder.parents or folder in place.parents:
            raise BadRequest(
                f"{folder} is, holds or lies in a folder of Ormah itself ({place})", hint="name another folder"
            )
    for other in (one.folder.resolve() for one in now.settings.sources):
        if other == folder or other in folder.parents or folder in other.parents:
            raise BadRequest(
                f"{other} is a source already, and {folder} shares files with it",
                hint=f"ormahctl sources remove {shlex.quote(str(other))}",
            )

    # Add its entry. The default space is the name of the repository around it
    around = next((one for one in (folder, *folder.parents) if (one / ".git").exists()), folder)
    made = SourceFolder(path=str(folder), space=space or around.name, include=include, exclude=exclude)

    with _editing(now.file, f"add a table [[{SOURCES}]] by hand") as document:
        table = tomlkit.table()
        table.update({name: value for name, value in made.model_dump().items() if value})
        document.setdefault(SOURCES, tomlkit.aot()).append(table)
    return made


def remove_source(name: str) -> SourceFolder:
    """Remove a source from the configuration file, and return its entry. `name`: its folder, or the folder's name.

    Raises:
        NotFound: no source has this name.
        Ambiguous: several folders have this name.
    """
    now = load()
    wanted = paths.expand(Path(name)).absolute()
    sources = now.settings.sources
    found = [one for one in sources if one.folder in (wanted, wanted.resolve())]
    found = found or [one for one in sources if one.folder.name == name]
    if not found:
        listed = ", ".join(str(one.folder) for one in sources) or "none"
        raise NotFound(f"{name} is no source", hint=f"the sources are: {listed}")
    if len(found) > 1:
        raise Ambiguous(f"several sources are called {name}", hint="name its folder: ormahctl sources")

    with _editing(now.file, f"change [[{SOURCES}]] by hand") as document:
        document[SOURCES].pop(sources.index(found[0]))
        if not document[SOURCES]:
            del document[SOURCES]
    return found[0]


def default_document() -> str:
    """Return a `config.toml` with every setting commented out, with its default and description."""
    import tomlkit

    lines: list[str] = ["# Ormah's settings and their defaults. Take the # off a line to change it."]
    groups = Settings()
    for group, field in Settings.model_fields.items():
        if group == SOURCES:
            continue
        lines += ["", f"[{group}]"]
        model = getattr(groups, group)
        assert field.annotation is not None
        for name, setting in type(model).model_fields.items():
            value = getattr(model, name)
            default = '""' if value is None else tomlkit.item(value).as_string()
            lines += [f"# {setting.description}", f"# {name} = {default}"]
    return "\n".join(lines) + "\n"


def markdown_table() -> str:
    """Return the table of settings of docs/configuration.md."""
    rows = ["| setting | default | what it is for |", "|---|---|---|"]
    groups = Settings()
    for group, name in keys():
        model = getattr(groups, group)
        value = getattr(model, name)
        default = "unset" if value is None else f"`{str(value).lower() if isinstance(value, bool) else value}`"
        rows.append(f"| `{group}.{name}` | {default} | {type(model).model_fields[name].description} |")
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
