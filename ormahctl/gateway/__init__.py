"""The gateway: one process beside the daemon, in which asyncio lives. It serves MCP sessions, and HTTP where wanted.

It is a client of the daemon's socket like any command, starts when the first agent needs it, and ends after a rest. The
daemon imports nothing of it, and works without it.
"""
