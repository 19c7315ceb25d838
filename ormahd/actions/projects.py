"""Find the project that a caller works in, and the space of that project."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from msgspec import structs

from ormahd import paths
from ormahd.actions.amend import Caller, check_space, transaction
from ormahd.api import AssignSpaceParams, AssignSpaceResult, ListedSpace, SpacesResult
from ormahd.errors import BadRequest
from ormahd.model.change import Kind
from ormahd.model.node import write_time
from ormahd.model.spaces import FILE, ProjectKey, with_line
from ormahd.note.read import digest
from ormahd.ormah import Ormah
from ormahd.state import sessions
from ormahd.state.sessions import is_excluded
from ormahd.text.secrets import redact_name
from ormahd.vault.spaces import GLOBAL, Project, ProjectSpace, find_project


def _project(ormah: Ormah, cwd: str | None) -> Project | None:
    """Return the project of the folder `cwd`: the repository around it, otherwise the folder itself. None for the home
    folder, `/` and the vault. Names that contain a secret are replaced."""
    if not cwd or not os.path.isabs(cwd) or "\x00" in cwd:
        return None
    folder, vault = Path(os.path.normpath(cwd)), ormah.vault.root
    nowhere = frozenset({paths.known_home() or Path(folder.anchor), Path(folder.anchor)})
    if folder in nowhere or folder == vault or vault in folder.parents:
        return None
    found = find_project(folder, nowhere)
    if found is None or not ormah.settings.secrets.redact:
        return found
    clean = {name: _without_secret(getattr(found, name)) for name in ("key", "name", "folder")}
    return structs.replace(found, **clean, ways=tuple(map(_without_secret, found.ways)))


def _without_secret(name: str) -> str:
    """Return `name`, or `hidden-` and its digest if it holds a secret: two such projects still have different names."""
    if not redact_name(name).found:
        return name
    return f"hidden-{hashlib.blake2b(name.encode('utf-8', 'surrogateescape'), digest_size=4).hexdigest()}"


def home_of(ormah: Ormah, cwd: str | None) -> ProjectSpace | None:
    """Return the space of the project around the folder `cwd`; None if there is no project."""
    project = _project(ormah, cwd)
    return None if project is None else ormah.spaces.space_of(project, ormah.clock())


def space_of(ormah: Ormah, caller: Caller) -> str | None:
    """Return the space of the caller's project: at the folder where its session began, otherwise at its working
    directory."""
    found = home_of(ormah, place_of(ormah, caller))
    return None if found is None else found.space


def is_unkept(ormah: Ormah, caller: Caller, session_id: str | None) -> bool:
    """Return whether the setting `sessions.exclude` forbids to store the conversation of the caller's session. It
    covers the folder in which the caller works, or in which the session `session_id` or `caller.session` began."""
    excluded = ormah.settings.sessions.exclude
    keys = {sessions.key_of(session_id), sessions.key_of(caller.session)} - {None}
    places = [caller.cwd, *(sessions.began(ormah.state, key) for key in keys if key is not None)] if excluded else []
    return any(is_excluded(place, excluded) for place in places if place is not None)


def settle(ormah: Ormah, caller: Caller) -> str | None:
    """Return the space in which a caller's new memory belongs. If its project is new, record the project's space in the
    vault, in a commit of its own. None: the caller is in no project."""
    project = _project(ormah, place_of(ormah, caller))
    if project is None:
        return None
    found = ormah.spaces.space_of(project, ormah.clock())
    if found.line is None:
        return found.space
    root = project.first_commit()
    with ormah.writing:
        found = ormah.spaces.space_of(project, ormah.clock())  # another call may have recorded it meanwhile
        if found.line is None:
            return found.space
        _write(ormah, caller, structs.replace(found.line, root=root))
    return found.space


def assign(ormah: Ormah, params: AssignSpaceParams, caller: Caller) -> AssignSpaceResult:
    """Assign the caller's project to `space` on a person's request. Existing memories stay in their space.

    Raises:
        BadRequest: the space has no name, or the caller is in no project.
    """
    space = check_space(params.space)
    if space is None:
        raise BadRequest("a project's space has a name", hint="--global says of one memory that it is of no project")
    project = _project(ormah, place_of(ormah, caller))
    if project is None:
        raise BadRequest("there is no project here", hint="go to the folder of the project first")
    root = project.first_commit()
    with ormah.writing:
        found = ormah.spaces.space_of(project, ormah.clock())
        if found.space != space or found.line is not None:
            since = write_time(ormah.clock(), "auto")
            line = ProjectKey(key=found.key, space=space, since=since, folder=project.folder, root=root, chosen=True)
            _write(ormah, caller, line)
    return AssignSpaceResult(space=space, key=found.key)


def _write(ormah: Ormah, caller: Caller, line: ProjectKey) -> None:
    """Write the line that says to which project a space belongs, and commit it."""
    data = ormah.vault.read(FILE)
    subject = f"Space {line.space}: belongs to {line.key}"
    body = f"It is the same project as {line.same}." if line.same else ""
    with transaction(ormah, subject, kind=Kind.SPACE, caller=caller, body=body) as tx:
        expect = None if data is None else digest(data)
        tx.put(FILE, with_line(data or b"", line), node_id=None, expect=expect)


def list_spaces(ormah: Ormah, caller: Caller) -> SpacesResult:
    """Return all spaces that have memories or belong to a project, and the space and project of the caller."""
    lacking, counts = ormah.lacking(), ormah.index.stats().by_space
    projects: dict[str, list[str]] = {}
    for key, space in ormah.spaces.lines()[1].items():
        projects.setdefault(space, []).append(key)
    names = sorted(counts.keys() | projects.keys(), key=lambda name: (-counts.get(name, 0), name))
    home = home_of(ormah, place_of(ormah, caller))
    listed = []
    for name in names:
        shared = name == GLOBAL
        listed.append(
            ListedSpace(space=None if shared else name, memories=counts.get(name, 0), projects=projects.get(name, []))
        )
    here, project = (None, None) if home is None else (home.space, home.key)
    return SpacesResult(spaces=listed, here=here, project=project, degraded=lacking)


def place_of(ormah: Ormah, caller: Caller) -> str | None:
    """Return the folder in which the caller's session began, or else its working directory."""
    session = sessions.key_of(caller.session)
    began = None if session is None else sessions.began(ormah.state, session)
    return caller.cwd if began is None else began
