"""Synchronizes the vaults of several machines through a git remote."""
