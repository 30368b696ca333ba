"""Several sinks at once, and what they cost a crawl."""
