"""Brings in what was said elsewhere: transcripts of agents and exports of chats."""
