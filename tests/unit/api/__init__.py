"""The ingest service, part by part."""
