"""The jobs that archive unused memories, and that store uses and importance in the vault."""
