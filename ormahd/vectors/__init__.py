"""Nearest neighbours: vectors in memory and in Chroma."""
