"""The archive of sessions: what the person said and what agents answered, a file a session, searched by words."""
