"""What can be asked of Ormah, one verb a file. An action reads, decides, and changes the vault in one transaction."""
