"""Nearest neighbours of vectors: exact in memory, approximate in Chroma."""
