"""What a model will need in training: memory, operations, time."""
