"""Services of the operating system: priorities, memory, threads, files, disks. Independent of memories and notes."""
