"""ormahd: the daemon that keeps a git-versioned vault of markdown notes as an agent's memory."""

__version__ = "0.1.0"
