"""Embedders: turn texts into vectors, on one of several runtimes."""
