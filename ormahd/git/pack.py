"""Write many objects as one pack (gitformat-pack(5)), without deltas.

The pack and its index are written here because starting `git index-pack` takes longer. Only in a sha256 repository
does git write the index.
"""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import zlib
from collections.abc import Mapping
from pathlib import Path

from ormahd.git.process import importing
from ormahd.git.repository import Git
from ormahd.process.disk import Flusher, sync_directory, write_and_sync

CODES = {"commit": 1, "tree": 2, "blob": 3}
STORED = {"commit": 1024, "tree": 4096}
"""Up to this many bytes, objects of a kind are stored uncompressed: most commits, and trees of small folders."""


def write_pack(git: Git, fresh: Mapping[str, tuple[str, bytes]], flusher: Flusher) -> None:
    """Write objects, {oid: (kind, bytes)}, durably as one pack."""
    folder = git.common / "objects" / "pack"
    if git.object_format != "sha1":
        body = b"".join(_parts(fresh))
        git.run("index-pack", "--stdin", input=body + hashlib.sha256(body).digest())
        sync_directory(folder)
        return
    with importing:
        from gitdb.pack import IndexWriter  # slow to import, and needed only for packs

    index = IndexWriter()
    body, *parts = _parts(fresh)
    at = len(body)
    for oid, part in zip(fresh, parts, strict=True):
        index.append(bytes.fromhex(oid), zlib.crc32(part), at)
        at += len(part)
    body += b"".join(parts)
    sha = hashlib.sha1(body, usedforsecurity=False)
    listed = io.BytesIO()
    index.write(sha.digest(), listed.write)
    folder.mkdir(exist_ok=True)
    mark = secrets.token_hex(8)
    files = {
        folder / f"tmp_pack_{mark}": (body + sha.digest(), folder / f"pack-{sha.hexdigest()}.pack"),
        folder / f"tmp_idx_{mark}": (listed.getvalue(), folder / f"pack-{sha.hexdigest()}.idx"),
    }
    try:
        flusher.each(lambda path: _write(path, files[path][0]), list(files))
        for path, (_, name) in files.items():  # the index last: git finds a pack by its index
            os.rename(path, name)
    finally:
        for path in files:
            path.unlink(missing_ok=True)
    sync_directory(folder)


def _parts(fresh: Mapping[str, tuple[str, bytes]]) -> list[bytes]:
    """Return the parts of the pack: its header, then each object."""
    parts = [b"PACK" + (2).to_bytes(4, "big") + len(fresh).to_bytes(4, "big")]
    for kind, data in fresh.values():
        size = len(data)
        first = (CODES[kind] << 4) | (size & 15)
        size >>= 4
        header = bytearray()
        while size:
            header.append(first | 0x80)
            first = size & 0x7F
            size >>= 7
        header.append(first)
        parts.append(bytes(header) + deflated(kind, data))
    return parts


def deflated(kind: str, data: bytes) -> bytes:
    """Return `data` in zlib format (RFC 1950); `kind` is that of the object.

    Small commits and trees are stored uncompressed, as git does with `core.compression=0`. Compressing each takes
    time and releases the GIL, and saves little; a later repack stores them as deltas.
    """
    size = len(data)
    if size > STORED.get(kind, 0):
        return zlib.compress(data, 1)
    lengths = size.to_bytes(2, "little") + (size ^ 0xFFFF).to_bytes(2, "little")
    return b"\x78\x01\x01" + lengths + data + zlib.adler32(data).to_bytes(4, "big")


def _write(path: Path, data: bytes) -> None:
    write_and_sync(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444), data)
