"""The worker, part by part."""
