"""Makes memories from the sections of documents (text, markdown and PDF files), and updates them with the file."""
