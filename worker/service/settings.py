"""Which sections of the settings a worker reads."""

SECTIONS = (
    *("faktory", "worker", "kafka", "crawl", "fetch", "allow", "sinks", "warc", "pressure"),
    "stages",
)
