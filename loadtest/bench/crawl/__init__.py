"""The synthetic web, crawled by us and by others."""
