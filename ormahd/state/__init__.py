"""Telemetry of recent days, proposals and runs of jobs, in `state.sqlite3`. Losing it loses no memory."""
