"""The builders of trees, one algorithm a file.

A builder returns the three arrays of a tree, as `TreeArrays`, or all arguments
of `Tree`, as a dict. The class method of the same name in
`tf_hsm.tree.constructors` documents its arguments and errors. Beside a builder
stands the `Kind` by which the command line names it.
"""
