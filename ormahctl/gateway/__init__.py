"""The gateway: a process beside the daemon that serves MCP sessions to agents, and HTTP if a person asks for it.

It runs on asyncio. It is a client of the daemon's socket like any command, starts when the first agent needs it, and
ends when it was unused for a while. The daemon imports nothing of it, and works without it.
"""
