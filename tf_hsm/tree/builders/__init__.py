"""The builders of trees, one algorithm a file."""
