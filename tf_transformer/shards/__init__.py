"""A large file, translated in shards: broken off at any moment, or by many processes, it ends as the same file."""
