"""What a crawl is, for the API that takes it and the workers that run it. Pure."""
