"""Archives transcripts of agents and exports of chats, makes memories from them, and makes memories from documents."""
