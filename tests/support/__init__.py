"""Fakes that several tests share: they keep the product's own interfaces."""
