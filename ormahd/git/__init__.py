"""Everything that knows git: processes, objects, refs, the index, locks, attributes, remotes."""
