"""Which shards this process owns, and the thread that writes each one's store."""
