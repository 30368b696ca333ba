"""Archives decoded and exported."""
