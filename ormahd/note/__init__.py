"""Notes: parse, compose, edit, merge and diff the bytes of a note. No I/O. FORMAT.md specifies the format.

`values` (a parsed note, paths, ids); `frontmatter` (YAML and its lines) and `fields` (each field as YAML), on which
`read` (parse), `write` (compose, give_id), `edit`, `merge` and `diff` build; `markdown` (the text).
"""
