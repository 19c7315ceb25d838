"""What became of what we said: telemetry of the last days, in `state.sqlite3`. Losing it loses no memory."""
