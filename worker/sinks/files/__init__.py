"""Sinks that write files, on disk or to S3: what is committed is in a manifest."""
