"""Reads back what sinks have written: the pages of one crawl, from a place in the sink on."""
