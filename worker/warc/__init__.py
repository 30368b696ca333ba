"""Pages as records of WARC files."""
