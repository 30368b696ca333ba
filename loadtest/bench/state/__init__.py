"""The state store of the crawls."""
