"""All code that runs git: processes, objects, refs, the index, locks, attributes, remotes."""
