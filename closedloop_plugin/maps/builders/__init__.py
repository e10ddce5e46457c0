"""Builders of corridor maps: straight roads, junctions, highways, smooth joints."""
