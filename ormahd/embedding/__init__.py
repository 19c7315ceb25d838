"""Embedders: texts to vectors, in several runtimes."""
