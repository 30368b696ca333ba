"""Tests of single parts: no servers but scripted ones, nothing slower than a second."""
