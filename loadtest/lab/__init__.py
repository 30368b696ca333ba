"""Where consumers drain a server: servers, consumers, who pushes, and one measured drain."""
