"""Safe files: written completely or not at all, and verified with checksums."""
