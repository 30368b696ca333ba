"""A directory of SQLite files: one for control, one for each shard."""
