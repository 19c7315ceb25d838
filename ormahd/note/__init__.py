"""Notes: parse, compose, edit, merge and diff the bytes of a note. No I/O. FORMAT.md specifies the format.

`values` (types, paths, ids), `read` (parse), `write` (compose, give_id), `edit`, `merge`, `diff`, `markdown`, `fields`.
"""
