"""The command `ormahd`: run the daemon, or check configuration and vault without one."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from ormahd import __version__, paths
from ormahd.detach import complain, detached
from ormahd.errors import OrmahError
from ormahd.process import priority

Place = click.Path(path_type=Path, resolve_path=False)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line. Every error becomes a sentence, a hint and an exit status (DESIGN section 12)."""
    paths.in_utf8()
    sys.exit(status_of(lambda: cli.main(arguments, prog_name="ormahd", standalone_mode=False)))


def status_of(act: Callable[[], Any]) -> int:
    """Run `act`, print the error if it fails, and return the exit status. The status is what `act` returns if that is
    an int, otherwise 0."""
    try:
        status = act()
    except OrmahError as exc:
        return complain(exc.message, exc.hint, exc.exit_status)
    except click.UsageError as exc:
        if isinstance(exc, click.exceptions.NoArgsIsHelpError):
            exc.show()
            return exc.exit_code
        place = exc.ctx.command_path if exc.ctx else "ormahd"
        return complain(exc.format_message().rstrip("."), f"see: {place} --help", exc.exit_code)
    except click.ClickException as exc:
        exc.show()
        return exc.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        sys.stdout = None  # the reader has gone: there is nothing to flush at exit
        return 0
    except OSError as exc:
        return complain(f"{exc.strerror or exc}: {exc.filename or 'ormahd'}", "look after that file or disk", 70)
    return status if isinstance(status, int) else 0


def settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options `--vault`, `--config` and `--socket` to a command."""
    for option in (
        click.option("--socket", type=Place, help="The Unix socket (setting daemon.socket)."),
        click.option("--config", type=Place, help="The configuration file instead of the usual one."),
        click.option("--vault", type=Place, help="The folder of notes (setting vault.path)."),
    ):
        command = option(command)
    return command


def load(vault: Path | None = None, config: Path | None = None, socket: Path | None = None) -> Any:
    """Return the configuration, as a `config.Config`, with the values of the command's options applied. None: the
    option was not given."""
    from ormahd.config import load as load_config

    options = {"vault.path": vault, "daemon.socket": socket, "config": config}
    absolute = {key: None if path is None else os.path.abspath(paths.expand(path)) for key, path in options.items()}
    file = absolute.pop("config")
    return load_config(None if file is None else Path(file), flags=absolute)


def _version(context: click.Context, _: click.Parameter, value: bool) -> None:
    """Print the versions of the program and of the protocol, and exit, if the option `--version` was given (a click
    callback)."""
    if value and not context.resilient_parsing:
        from ormahd.api import PROTOCOL

        click.echo(f"ormahd {__version__} (protocol {PROTOCOL})")
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
def cli() -> None:
    """The daemon that keeps a git-versioned vault of markdown notes as the memory of AI agents.

    People use ormahctl. These commands are for supervisors, and for work on a vault while the daemon is down.
    """


@cli.command()
@settings
@click.option(
    "--detach", is_flag=True, help="Continue in the background once it answers (not under systemd or launchd)."
)
def run(vault: Path | None, config: Path | None, socket: Path | None, detach: bool) -> int:
    """Run the daemon."""
    from ormahd.process.supervisor import is_supervised

    # Set before numpy is imported: our matrix products are small, and a second BLAS thread would only busy-wait.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # ONNX Runtime's telemetry is on unless this is set before its first import, by Chroma or by Ormah (embedding/onnx.py).
    os.environ["ORT_DISABLE_TELEMETRY"] = os.environ["ORT_TELEMETRY_DISABLED"] = "1"
    # Otherwise Pydantic reads the metadata of every installed package to find plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    priority.few_arenas()
    gc.disable()  # off during imports: they leave no garbage, and collecting takes a fifth of the time
    found = load(vault, config, socket)
    if detach and not is_supervised(os.environ, os.getpid()):
        return detached(found)
    from ormahd import daemon

    return daemon.end(daemon.run(found, foreground=True))


@cli.command(name="merge-driver", hidden=True)
def merge_driver() -> None:
    """Merge three versions of a note, read from standard input, for git while no daemon runs."""
    from ormahd.rpc import merging

    answer = merging.answer(sys.stdin.buffer.read())
    sys.stdout.buffer.write(answer)


# ---------------------------------------------------------------- checks


@cli.group(name="config")
def config_group() -> None:
    """Show or check the settings."""


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
config_option = click.option("--config", type=Place, help="The configuration file instead of the usual one.")


@config_group.command()
@click.argument("key", required=False)
@config_option
@as_json
def show(key: str | None, config: Path | None, as_json: bool) -> None:
    """Print the settings in use and where each was set; those that you set come first. KEY: one, or a group."""
    from ormahd.config import chosen
    from ormahd.settings import Settings

    found, usual = load(config=config), Settings().model_dump(mode="json")
    dumped = found.settings.model_dump(mode="json")
    rows = [(f"{group}.{name}", dumped[group][name], found.origin(f"{group}.{name}")) for group, name in chosen(key)]
    if as_json:
        settings = {
            key: {"value": value, "origin": origin, "default": usual[key.partition(".")[0]][key.partition(".")[2]]}
            for key, value, origin in rows
        }
        click.echo(json.dumps({"file": str(found.file), "settings": settings}, indent=2, ensure_ascii=False))
        return
    click.echo(f"# {found.file}{'' if found.file.exists() else ' (not there)'}")
    for key, value, origin in sorted(rows, key=lambda row: row[2] == "default"):
        click.echo(f"{key} = {json.dumps(value, ensure_ascii=False)}{'' if origin == 'default' else f'    # {origin}'}")


@config_group.command()
@as_json
def default(as_json: bool) -> None:
    """Print a config.toml with every setting commented out, with its default and description."""
    from ormahd.config import default_document

    document = default_document()
    click.echo(json.dumps({"document": document}) if as_json else document, nl=as_json)


@config_group.command(name="set")
@click.argument("key")
@click.argument("value")
def set_config(key: str, value: str) -> None:
    """Set KEY (such as vault.path) to VALUE in the configuration file. Everything else in the file stays."""
    from ormahd.config import set_setting
    from ormahd.embedding.model import load as load_model

    if key == "embedding.model":  # a name without a model would leave the daemon without meaning
        chosen = load().settings.embedding.model_copy(update={"model": value})
        load_model(chosen, paths.private_dir(paths.models_dir()))
    found = set_setting(key, value)
    group, _, name = key.partition(".")
    to_dict = json.dumps(found.settings.model_dump(mode="json")[group][name], ensure_ascii=False)
    click.echo(f"{key} = {to_dict}  # {found.file}")


@config_group.command(name="check")
@config_option
@as_json
def check_config(config: Path | None, as_json: bool) -> int:
    """Find errors in the configuration file and the environment."""
    from ormahd.actions.admin import config_findings

    found = config_findings(lambda: load(config=config))
    return _report(found, as_json, "the configuration is in order")


@cli.group(name="sources")
def sources_group() -> None:
    """Folders of yours that are found in place. All print JSON, for ormahctl."""


@sources_group.command(name="add")
@click.argument("folder", type=Place)
@click.option("--space", default="", help="The space of its notes; global: none.")
@click.option("--include", multiple=True, help="Only files that match this pattern.")
@click.option("--exclude", multiple=True, help="No files that match this pattern.")
def add(folder: Path, space: str, include: tuple[str, ...], exclude: tuple[str, ...]) -> None:
    """Name a folder as a source in the configuration file."""
    from ormahd.config import add_source

    made = add_source(folder, space, list(include), list(exclude))
    click.echo(json.dumps({"path": str(made.folder), "space": made.belongs_to}, ensure_ascii=False))


@sources_group.command(name="remove")
@click.argument("name")
def remove(name: str) -> None:
    """Take a source out of the configuration file."""
    from ormahd.config import remove_source

    made = remove_source(name)
    click.echo(json.dumps({"path": str(made.folder), "space": made.belongs_to}, ensure_ascii=False))


@cli.command()
@click.argument("name", required=False)
def model(name: str | None) -> None:
    """Load the embedding model in use and say what runs it, or load another one and set it. Prints JSON, for ormahctl."""
    from ormahd.config import write_setting
    from ormahd.embedding.model import load as load_model
    from ormahd.errors import Conflict

    found = load()
    origin = found.origin("embedding.model")
    if name is not None and origin not in {"default", str(found.file)}:
        raise Conflict(f"{origin} sets embedding.model, and wins over the file", hint=f"unset {origin} first")
    chosen = found.settings.embedding
    if name is not None:
        chosen = chosen.model_copy(update={"model": name})
    made = load_model(chosen, paths.private_dir(paths.models_dir()))
    if name is not None:
        write_setting(found.file, "embedding.model", chosen.model)
    about: dict[str, Any] = {"name": chosen.model, "runtime": made.served.runtime, "version": made.served.version}
    about |= {"dimensions": made.dimensions, "file": str(found.file)}
    click.echo(json.dumps(about, ensure_ascii=False))


@cli.command()
@settings
@as_json
def check(vault: Path | None, config: Path | None, socket: Path | None, as_json: bool) -> int:
    """Check configuration and vault without changing anything. Exit status 1 if there is a problem."""
    from ormahd.actions.admin import config_findings
    from ormahd.offline_check import vault_findings

    found = config_findings(lambda: load(vault, config, socket))
    if not any(one.level == "error" for one in found):
        found += vault_findings(load(vault, config, socket))
    return _report(found, as_json, "configuration and vault are in order")


@cli.command()
@settings
@as_json
@click.option("--fix", is_flag=True, help="Fix what needs no decision.")
def doctor(vault: Path | None, config: Path | None, socket: Path | None, as_json: bool, fix: bool) -> int:
    """Examine the vault and its index while the daemon is down. Exit status 1 if there is a problem."""
    from ormahd.actions.admin import config_findings
    from ormahd.offline_check import doctor_findings

    found = config_findings(lambda: load(vault, config, socket))
    if not any(one.level == "error" for one in found):
        found = doctor_findings(load(vault, config, socket), fix=fix)
    return _report(found, as_json, "nothing was found")


def _report(found: Sequence[Any], as_json: bool, fine: str) -> int:
    """Print the findings, or `fine` if there are none. Return the exit status: 1 if a finding is a warning or an error,
    else 0."""
    import msgspec

    if as_json:
        findings = [msgspec.to_builtins(finding) for finding in found]
        click.echo(json.dumps({"findings": findings}, indent=2, ensure_ascii=False))
    else:
        for finding in found:
            place = finding.path or ""
            place = f"{place}:{finding.line}" if finding.line else place
            click.echo(f"{finding.level}: {f'{place}: ' if place else ''}{finding.what}")
            if finding.mend:
                click.echo(f"    mend: {finding.mend}")
        if not found:
            click.echo(fine)
    return 1 if any(finding.level != "info" for finding in found) else 0


if __name__ == "__main__":
    main()
