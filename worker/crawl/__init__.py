"""Crawls on this worker: the shards it owns, the hosts that are due, the pages it fetches."""
