"""The state store of the crawls: frontier, seen, hosts, robots, counters, leases, leader."""
