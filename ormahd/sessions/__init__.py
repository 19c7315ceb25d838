"""The archive of sessions: what the person said and what agents answered, in one file per session, with full-text
search."""
