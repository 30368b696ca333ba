"""How to treat a host: delays, robots.txt, patience."""
