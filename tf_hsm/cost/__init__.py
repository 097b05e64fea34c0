"""What a training step costs: per group, per tree, per cut into clusters."""
