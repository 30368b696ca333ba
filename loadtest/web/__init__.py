"""The synthetic web: what it is, what a perfect crawl of it fetches, and how it was visited."""
