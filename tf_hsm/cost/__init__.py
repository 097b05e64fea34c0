"""The cost of a training step: per group, per tree, per cut into clusters."""
