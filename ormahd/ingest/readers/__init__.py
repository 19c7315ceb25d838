"""Readers of transcripts and exports, one format a file: they take bytes and yield turns, and know no disk, clock or index."""
