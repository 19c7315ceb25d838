"""The wired whole: one vault, its index, its journal, its models. Everything above this asks here.

`open` is quick and needs no model; `warm` brings what takes seconds; `close` undoes both in reverse.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TypeVar

from ormahd import paths
from ormahd.api import Difference
from ormahd.config import Config
from ormahd.embedding.choose import load
from ormahd.embedding.embedder import Embedder, QueryVectors
from ormahd.errors import BadRequest, BegunAnew, NoRoom, NotFound, OrmahError, Unavailable
from ormahd.fetch import Fetcher
from ormahd.index.index import Index
from ormahd.index.rows import Filter, NodeRow
from ormahd.index.snapshots import Snapshots
from ormahd.learned_state import Learned
from ormahd.mender import Mender
from ormahd.model.change import Clock, Committed, Kind
from ormahd.model.files import FileState
from ormahd.model.node import NodeType, Tier
from ormahd.note import note as codec
from ormahd.note.note import NoteKind
from ormahd.process import own_files, priority
from ormahd.process.threads import Turns
from ormahd.reworded import Reworded
from ormahd.state.feedback import Judgements
from ormahd.state.state import State
from ormahd.sync.state import SyncState
from ormahd.text.secrets import redact
from ormahd.vault import merge_driver
from ormahd.vault.history import find_node
from ormahd.vault.spaces import Spaces
from ormahd.vault.vault import Vault
from ormahd.watch.reading import as_files
from ormahd.watch.reconciler import Reconciler
from ormahd.watch.scan import Leaving
from ormahd.watch.watcher import Watcher

log = logging.getLogger("ormah")

DRAWS = 100
"""Ids drawn before we give up on a free short one; with a million notes each draw is free with 0.9998."""
PATIENCE = 20.0
"""Seconds that becoming ready waits for texts without vectors."""
LOOKS = 3
"""How often the index is compared with a vault that is written to meanwhile."""
UNMENDED = {"chroma"}
"""What of a comparison is no matter of the index's file: Chroma is filled again by itself."""
LOOKED_THROUGH = 64_000_000
"""Bytes of an index that SQLite looks through before the first scan: some tenths of a second. A larger one is looked through later."""
LITTLE = 5_000_000
"""Free bytes of a disk from which on it is called full: one commit and a batch of the index need that much."""
MENDING = 5.0
"""Seconds that a request waits for an index that is begun anew."""
TRIES = 3
"""Times that a request is tried: index and state may both be damaged."""
AGAIN = 2.0
"""Seconds from a first scan that failed to the next one: once a disk has room again, the daemon is soon ready."""
RECENT = 10_000
"""Short ids remembered as drawn: far more than can be on their way at once."""

T = TypeVar("T")


def present() -> datetime:
    return datetime.now(UTC)


class Ormah:
    """One person's memory. Thread-safe: many readers, one writer (`writing`)."""

    def __init__(self, config: Config, vault: Vault, index: Index, state: State, clock: Clock) -> None:
        self.config = config
        self.settings = config.settings
        self.vault = vault
        self.index = index
        self.pasts = Snapshots(index, clock, stopping=lambda: self.phase == "stopping")
        self.state = state
        self.learned = Learned(vault, index, state)
        self.spaces = Spaces(vault)
        self.clock = clock
        self.ranking_clock = _fixed(self.settings.daemon.fixed_time) or clock
        self.phase = "starting"
        self.started = clock()
        self.warnings: list[str] = []
        self.syncing = SyncState()
        self.mender = Mender(
            index, state, scan=self._bring_in, forget=self._forget, differs=self._differs, rebuild=self._rebuild_rows,
            warn=self.warn, rested=lambda: vault.rested,
        )  # fmt: skip
        self.writing = threading.RLock()
        """Held from seeing a note to committing its change, by everything that edits notes that exist."""
        self.reconciler = Reconciler(
            vault,
            known=self._known,
            settings=self.settings.vault,
            clock=clock,
            apply=self._observed,
            touched=self.index.touched,
            position=lambda: self.index.position,
            check_secrets=self.settings.secrets.redact,
        )
        fetcher = Fetcher(
            vault, self.reconciler, index, lambda: self.mender.at_work or self.phase in {"starting", "reconciling"},
            lambda: self.mender.wait(MENDING),
        )  # fmt: skip
        index.fetch_id, index.fetch_words = self._fetched(fetcher), fetcher.by_words
        index.first_path = self.reconciler.first_path
        index.blob_id = vault.conversion.known_id
        self.reworded = Reworded(vault, index)
        self._watcher: Watcher | None = None
        self.socket: Path | None = None
        """Where we answer, once that is known: git's merge driver asks there."""
        self.turns = Turns()
        self._drawn: dict[str, None] = {}
        self._drawn_lock = threading.Lock()
        vault.listen(self._committed)

    @classmethod
    def open(cls, config: Config, *, clock: Clock = present) -> Ormah:
        """Lock the vault, roll the intent forward, open SQLite. A fraction of a second; no model, no Chroma.

        Raises:
            Unavailable: another daemon has this vault, or it cannot be used; the message says what to do.
        """
        vault = Vault.open(config.settings.vault, clock=clock)
        try:
            recovered = vault.recover()
            if not paths.state_dir(vault.root, vault.id).exists() and (former := vault.former()) is not None:
                paths.inherit(vault.root, former, vault.id)
            state = State(_private(paths.state_dir(vault.root, vault.id)), clock=clock)
            index = Index.open(
                _private(paths.index_dir(vault.root, vault.id)), config.settings.embedding, config.settings.vectors,
                clock=clock,
            )  # fmt: skip
        except BaseException:
            vault.close()
            raise
        ormah = cls(config, vault, index, state, clock)
        for sentence in recovered:
            log.info("%s", sentence)
        if index.dropped:
            log.warning("the index is made anew: %s", index.dropped)
        ormah.mender.tell()
        ormah.learned.read()
        return ormah

    # ------------------------------------------------------------ life

    def warm(
        self, on_phase: Callable[[str], None] = lambda _: None, *, last: Callable[[], None] = lambda: None
    ) -> None:
        """Reconcile with the vault and load the model, beside each other; then `last`, and all is ready.

        A model that cannot be loaded is no reason to stop: words answer alone, and `degraded` says so.
        """

        def enter(phase: str) -> None:
            if self.phase != "stopping":
                self.phase = phase
                on_phase(phase)

        try:
            self._warm(enter, last)
        finally:
            enter("ready")  # whatever failed: what there is answers
        self._settle()

    def _warm(self, enter: Callable[[str], None], last: Callable[[], None]) -> None:
        enter("reconciling")
        model = threading.Thread(target=self._load_model, name="model", daemon=True)
        model.start()
        if self.index.database.bytes() <= LOOKED_THROUGH:
            self.mender.look_through()
        self._first_scan()
        enter("warming")
        while model.is_alive() and self.phase != "stopping":
            model.join(0.2)
        end = time.monotonic() + PATIENCE
        while self.phase != "stopping" and not self.index.wait_filled(0.2) and time.monotonic() < end:
            pass  # a few texts are soon embedded; many go on in the background, and `degraded` says so
        last()

    def _first_scan(self) -> None:
        """Compare the index with the vault, again and again while a disk is full or the index is being begun anew."""
        told = ""
        while self.phase != "stopping":
            self.mender.wait(MENDING)
            try:
                self._bring_in()
                break
            except (BegunAnew, NoRoom) as exc:
                again = exc.message
            except OrmahError as exc:
                self.warn(f"the vault could not be compared with the index: {exc.message}")
                break
            if again != told:
                log.warning("the index could not be compared with the vault yet: %s", told := again)
            self.syncing.stopping.wait(AGAIN)

    def _settle(self) -> None:
        """What nobody waits for: the history is read once, so that the first question about it need not."""
        try:
            if self.phase == "ready":
                self.vault.touched.warm()
        except OrmahError as exc:
            log.info("the history was not read ahead: %s", exc.message)

    def pack(self) -> None:
        """Pack the repository's loose objects where many have gathered: our commits start no gc, so that none ever waits for
        one."""
        try:
            if self.phase == "ready" and self.vault.tidy():
                log.info("the repository's loose objects were packed")
        except OrmahError as exc:
            log.info("the repository was not packed: %s", exc.message)

    def _load_model(self) -> None:
        try:
            priority.give()  # the first question is often there already: it came with what started us
            embedder = load(self.settings.embedding, _private(paths.models_dir()))
            self._attach(embedder)
        except OrmahError as exc:
            self.warn(f"no vectors: {exc.message}")
        except Exception as exc:  # a broken library or model must not take the memory down with it
            log.exception("the model could not be loaded")
            self.warn(f"no vectors: {exc}")
        priority.give()
        redact("")  # its patterns take a quarter of a second to load, which the first memory should not wait for

    def _attach(self, embedder: Embedder) -> None:
        """Have the index use the model, as soon as it has a file, or is in memory."""
        while self.phase != "stopping":
            self.mender.wait(MENDING)
            try:
                return self.index.attach(embedder)
            except (BegunAnew, NoRoom) as exc:
                log.info("the model waits for the index: %s", exc.message)
                self.syncing.stopping.wait(AGAIN)
        return None

    def mend_git(self) -> None:
        """Have git, typed by hand in the vault, merge notes as we do."""
        if self.socket is not None:
            for sentence in merge_driver.install(self.vault, merge_driver.command(self.socket)):
                log.info("%s", sentence)

    def watch(self) -> None:
        """From now on a person's edits are noticed while they happen."""
        self._watcher = Watcher(self.vault, self.reconciler, self.settings.vault)
        self._watcher.start()

    def close(self) -> None:
        """Stop what `watch` and `warm` started, then close the index, the journal and the vault."""
        self.phase = "stopping"
        self.syncing.stopping.set()
        if self._watcher is not None:
            self._watcher.stop()
        self.mender.stop()
        self.pasts.close()
        self.index.close()
        self.state.close()
        self.vault.close()

    def warn(self, sentence: str) -> None:
        log.warning(sentence)
        if sentence not in self.warnings:
            self.warnings = [*self.warnings, sentence][-20:]

    def degraded(self) -> list[str]:
        """The parts that answers have to do without at the moment."""
        parts = list(self.index.degraded)
        if self.mender.at_work or self.index.database.in_memory:
            parts.append("index")
        if self.state.trouble is not None:
            parts.append("state")
        if self._watcher is not None and not self._watcher.alive:
            parts.append("watcher")
        return parts

    def troubles(self) -> list[str]:
        """What our files cannot be written for at the moment, as sentences; and disks that have no room left."""
        found = [one for one in (self.state.trouble_said, self.index.database.trouble) if one is not None]
        disks: dict[Path, Path] = {}
        for place in (self.vault.root, self.index.directory, self.state.path.parent):
            with contextlib.suppress(OSError):
                disks.setdefault(own_files.mount_of(place), place)
        full = [place for mount, place in disks.items() if own_files.free(mount) < LITTLE]
        return [*found, *(f"a disk is as good as full: {own_files.room(place)}" for place in full)]

    def watcher_state(self) -> str:
        return "not started" if self._watcher is None else self._watcher.state

    def polling(self) -> str | None:
        """Why the vault's folder is scanned every few seconds instead of being watched; None while it is watched."""
        return None if self._watcher is None else self._watcher.polling

    # ------------------------------------------------------------ the index follows the vault

    def _committed(self, some: Sequence[Committed]) -> None:
        """Our own commits: the same bytes go into the index, before the writes are answered. What a sync brought is other
        machines' work: the scan after it decides what of it is to be indexed, as it does with a pull by hand."""
        for done in some:
            self.learned.committed(done)
        for _, group in itertools.groupby(some, lambda done: done.kind is Kind.SYNC):
            try:
                self._index(list(group))
            except (OrmahError, OSError, sqlite3.Error) as exc:
                # What is committed is acknowledged, whatever becomes of the index: that follows by the next scan.
                log.warning("the index could not take in what was written: %s", exc)
                self.mender.behind()

    def _index(self, some: Sequence[Committed]) -> None:
        if some[0].kind is Kind.SYNC:
            return
        changes = itertools.chain.from_iterable(done.changes for done in some)
        upserts, removals = as_files(self.vault.root, changes)
        self.reconciler.complete(upserts)
        known = some[0].parent is not None and self.index.position == some[0].parent
        whole = all(one.commit == other.parent for one, other in itertools.pairwise(some))
        self.index.apply(upserts, removals, head=some[-1].commit if known and whole else None)

    # ------------------------------------------------------------ damage

    def mended(self, act: Callable[[], T]) -> T:
        """What `act` returns; done again where the index or the state had to be begun anew meanwhile, and nothing was written by it."""
        written = self.vault.written_here
        self.mender.wait(MENDING)
        for left in reversed(range(TRIES)):
            generation = self.index.generation
            try:
                found = act()
                if generation == self.index.generation or not left or self.vault.written_here != written:
                    return found
            except (BegunAnew, NoRoom) as exc:
                ours = isinstance(exc, BegunAnew) or bool(exc.data.get("index"))  # else it is the vault that is refused
                if not ours or not left or self.vault.written_here != written:
                    raise
            except OrmahError:
                raise
            except Exception:
                # Damage that SQLite does not see comes as any error: only where a check finds it, it is tried again.
                if not left or self.vault.written_here != written or not self.mender.look_through():
                    raise
            self.mender.wait(MENDING)
        raise AssertionError("the last try returns or raises")

    def _bring_in(self) -> None:
        """A scan of the whole vault. Raises OrmahError, NoRoom where a disk is full."""
        try:
            self.reconciler.scan(stopping=lambda: self.phase == "stopping")
        except Leaving:
            log.info("the vault is not read to its end: the next start goes on")
        except (OSError, sqlite3.Error) as exc:
            if own_files.is_full(exc):
                raise NoRoom(f"the vault cannot be taken in: {own_files.room(self.vault.root)}") from exc
            raise Unavailable(f"the vault could not be taken in: {exc}") from exc

    def _forget(self) -> None:
        """The index is another one: what the scans before knew of it does not hold, nor does it know what use has made of nodes."""
        self.reconciler.forget()
        self.learned.forget()

    def _fetched(self, fetcher: Fetcher) -> Callable[[str], bool]:
        def fetch(prefix: str) -> bool:
            found = fetcher.by_id(prefix)
            if found and self.phase == "ready" and not self.mender.at_work:
                log.warning("the index lacked a memory that the vault has; it is compared with the vault")
                self.mender.suspect()
            return found

        return fetch

    def _differs(self) -> bool:
        return any(one.what not in UNMENDED for one in self._differences())

    def _rebuild_rows(self) -> None:
        with self.writing:
            self.index.rebuild(self.files(), head=self.vault.head())

    def _known(self) -> Mapping[str, FileState]:
        """What the scan need not read again. The first one of a life looks again at what is no memory: what may be
        adopted is a setting, and settings change between two lives."""
        known = self.index.known()
        if not self.reconciler.cold:
            return known
        notes = {path for path, kind in self.index.kinds().items() if kind in {NoteKind.NOTE, NoteKind.INDEXED}}
        return {path: state for path, state in known.items() if path in notes}

    def _observed(
        self, upserts: Mapping[str, tuple[bytes, FileState]], removals: Collection[str], head: str | None,
        notes: Mapping[str, codec.Note | None] | None,
    ) -> None:  # fmt: skip
        """What the scan saw: a person's edits, a checkout, a pull."""
        self.index.apply(upserts, removals, head=head, notes=notes)
        self.learned.read()

    @property
    def judgements(self) -> Judgements:
        """What became of what was whispered, as the vault says now."""
        return self.learned.judgements

    def files(self) -> Iterator[tuple[str, bytes, FileState]]:
        """Every file of the vault that the index ought to hold, read now."""
        yield from self.reconciler.files()

    def verify(self, progress: Callable[[int, int, str], None] = lambda *_: None) -> list[Difference]:
        """In what the index differs from the vault; that is mended soon. What waits for the end of a person's merge or rebase is no
        difference."""
        found = self._differences(progress)
        if self.phase == "ready" and any(one.what not in UNMENDED for one in found):
            self.mender.suspect()
        return found

    def _differences(self, progress: Callable[[int, int, str], None] = lambda *_: None) -> list[Difference]:
        """Notes may be written meanwhile: what differs is looked at again then, and counts where it differs each time."""
        found: list[Difference] = []
        for look in range(LOOKS):
            head = self.vault.head()
            now = self.index.verify(self.files(), progress=progress)
            found = now if not look else [one for one in found if one in now]
            if not found or self.vault.head() == head:
                break
        if found and self.vault.busy():
            waiting = self.reconciler.scan().waiting
            found = [one for one in found if one.path not in waiting]
        return found

    def copies(self) -> list[str]:
        """Paths of files that carry the id of another note, and so are no memories of their own."""
        found = []
        for path, kind in self.index.kinds().items():
            if kind in {NoteKind.NOTE, NoteKind.INDEXED}:
                continue
            data = self.vault.read(path)
            note = codec.parse(data, path) if data is not None else None
            if note is not None and note.kind is NoteKind.NOTE and note.id is not None:
                holder = self.index.notes([note.id]).get(note.id)
                if holder is not None and holder.path != path:
                    found.append(path)
        return found

    def rebuild(self, progress: Callable[[int, int, str], None]) -> int:
        """Make the index anew from the vault, keeping cached embeddings. Returns the number of nodes."""
        with self.writing:
            self.index.rebuild(self.files(), head=self.vault.head())
        while self.index.pending() and not self.index.wait_filled(0.5):
            progress(self.index.count() - self.index.pending(), self.index.count(), "embedding")
        return self.index.count()

    # ------------------------------------------------------------ names and places

    def anyone(self, prefix: str) -> str:
        """The full id that a prefix names, also of a memory that is forgotten: the history knows it."""
        try:
            return self.index.resolve(prefix)
        except NotFound:
            return find_node(self.vault, prefix)

    def new_id(self, taken: Collection[str] = ()) -> str:
        """A random id whose short id nobody has; `taken` holds short ids that are promised already."""
        for _ in range(DRAWS):
            drawn = str(uuid.uuid4())
            with self._drawn_lock:
                if drawn[:8] in taken or drawn[:8] in self._drawn or self.has_short(drawn[:8]) is not None:
                    continue
                # on its way into the index, where the next draw would not see it yet
                self._drawn[drawn[:8]] = None
                if len(self._drawn) > RECENT:
                    del self._drawn[next(iter(self._drawn))]
                return drawn
        raise BadRequest("no free short id was found", hint="this vault holds too many notes for 8-character ids")

    def moment(self) -> datetime:
        """The present as notes have it: whole seconds, because people read them."""
        return self.clock().replace(microsecond=0)

    def new_run(self) -> str:
        """An id for a series of ops that belong together (an import, a job's run)."""
        return self.vault.new_op()

    def has_short(self, short: str) -> str | None:
        """The id of the node with this short id, or None."""
        try:
            return self.index.resolve_known(short)
        except NotFound:
            return None

    def place(
        self,
        node_id: str,
        *,
        type: NodeType,  # noqa: A002
        space: str | None,
        title: str | None,
        content: str,
        created: datetime,
    ) -> str:
        """The path of a new note, relative to the vault's root."""
        path = codec.path_for(id=node_id, type=type, space=space, title=title, content=content, created=created)
        return str(PurePosixPath(self.vault.home, path))

    def in_tier(self, tier: Tier, *, writable: bool = False) -> list[NodeRow]:
        return list(
            self.index.notes(self.index.ids(Filter(tiers=(tier,), writable=writable)), connections=False).values()
        )

    # ------------------------------------------------------------ meaning

    def embed_query(self, text: str) -> QueryVectors | None:
        """A question's vectors; None until the model is there."""
        embedder = self.index.embedder
        return None if embedder is None else embedder.embed_query(text)

    def neighbours(self, title: str | None, content: str, limit: int) -> list[tuple[str, float]]:
        """Return the nodes nearest in meaning to a text that is about to be stored: (id, cosine), best first.

        Empty until the model is there. The text's embedding is kept for when the note is indexed.
        """
        return self.index.neighbours(title, content, limit)


def _private(directory: Path) -> Path:
    """A folder of ours that only we can enter, if one can be had. What needs it does without where there is none."""
    try:
        if sentence := own_files.make_way_for_folder(directory):
            log.warning("%s", sentence)
        return paths.private_dir(directory)
    except (OSError, OrmahError) as exc:
        log.warning("%s cannot be used: %s", directory, exc)
        return directory


def _fixed(time: str | None) -> Clock | None:
    if time is None:
        return None
    try:
        stands = datetime.fromisoformat(time)
    except ValueError:
        raise BadRequest(
            f"daemon.fixed_time = {time!r} is no ISO time", hint="for example 2026-11-21T20:00:00Z"
        ) from None
    stands = stands.replace(tzinfo=UTC) if stands.tzinfo is None else stands.astimezone(UTC)
    return lambda: stands
