"""Counts, pairs and vectors of classes from training data."""
