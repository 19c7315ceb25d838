"""Readers of transcripts and exports, one module for each format. They take a stream of bytes and yield turns; they
use no disk, clock or index."""
