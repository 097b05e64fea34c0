"""The builders of trees, one algorithm a file.

A builder returns what `Tree` takes: the three arrays and, where it knows them,
the names of the rows. Its docstring becomes the docstring of the class method
that `Tree` has of it, and beside it stands the `Kind` by which the command line
names it. `tf_hsm.tree.constructors` lists them all.
"""
