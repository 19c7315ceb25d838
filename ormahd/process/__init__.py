"""What is the operating system's: priorities, memory, threads, files and disks. Knows nothing of memories."""
