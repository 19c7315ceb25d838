"""Documents: text, markdown and PDF files, in sections that become memories and follow their file."""
