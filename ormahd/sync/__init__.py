"""Brings the vaults of several machines together through a git remote."""
