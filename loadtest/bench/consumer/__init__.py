"""Consumers of others and ours on a real Faktory."""
