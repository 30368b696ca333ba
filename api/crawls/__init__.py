"""Crawls over HTTP: they are written to the state store here, and run by the workers."""
