"""A crawl on this worker: shards that it owns, hosts that are due, pages that are fetched."""
