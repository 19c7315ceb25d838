"""The job that moves memories without a space into the space of their neighbours."""
