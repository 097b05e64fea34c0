"""Balanced clustering of points, for trees of similar classes."""
