"""Files and folders: written completely or not at all, verified with checksums, known by what is in them."""
