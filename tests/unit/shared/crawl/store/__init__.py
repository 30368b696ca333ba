"""The state store in SQLite, part by part."""
