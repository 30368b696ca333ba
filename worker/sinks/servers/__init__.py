"""Sinks that are servers: PostgreSQL, Elasticsearch, Kafka."""
