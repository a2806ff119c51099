"""Files that are whole: written at once or not at all, and checked by their checksums."""
