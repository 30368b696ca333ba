"""How a host wants to be treated: delays, robots.txt, patience."""
