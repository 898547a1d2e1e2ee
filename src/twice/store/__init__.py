"""Destinations, one folder each, behind one small protocol."""
