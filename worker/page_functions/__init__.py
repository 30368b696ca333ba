"""Code of one's own in a crawl: functions that get its pages, called where these are parsed."""
