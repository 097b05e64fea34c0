"""The builders of trees, one algorithm a file.

A builder returns the positional arguments of `Tree._of`: the three arrays and,
if it knows them, the names of the rows and more. The class method of the same
name in `tf_hsm.tree.constructors` documents its arguments and errors. Beside a
builder stands the `Kind` by which the command line names it.
"""
