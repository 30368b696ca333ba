"""The state store in PostgreSQL: one that many hosts share."""
