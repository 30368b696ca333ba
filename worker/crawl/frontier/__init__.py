"""What to fetch: waiting URLs, domains that are due, links found on pages."""
