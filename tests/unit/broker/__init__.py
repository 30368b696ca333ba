"""The broker, part by part."""
