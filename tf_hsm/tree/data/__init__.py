"""What training data says of its classes: counts, pairs, vectors."""
