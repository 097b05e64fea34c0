"""Between Python and the op library: loading, arguments, tensors, calls."""
