"""The command line: `python -m tf_hsm`."""
