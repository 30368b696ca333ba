"""What is to be fetched: URLs that wait, domains that are due, links that are found."""
