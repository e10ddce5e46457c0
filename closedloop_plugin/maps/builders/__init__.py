"""Builders of corridor maps: single roads, junctions, highway merges and exits."""
