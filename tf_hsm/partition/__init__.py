"""Classes in parts: which part a class is in, and the way there and back."""
