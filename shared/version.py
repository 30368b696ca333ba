"""The version of all services; pyproject.toml names the same one (a test holds that)."""

VERSION = "0.1.0"
