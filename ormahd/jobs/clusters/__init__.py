"""Moves a memory that nobody placed into the space of its neighbours."""
