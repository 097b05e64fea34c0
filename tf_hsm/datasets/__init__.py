"""Data sets of extreme classification: many labels, several for each example.

The Extreme Classification Repository (Bhatia et al., 2016) has two text
formats. Its earlier data sets have features and labels in one file, in the
format of libsvm with several labels:

    2 100 30
    4,17 3:0.5 42:1.25
     7:2

The first line says how many examples, features and labels there are. If it is
missing, the largest ids say so. Each other line is an example: its labels, and
then its non-zero features with their values. The second example has no labels.
`load_extreme("train.txt")` reads this format.

The newer data sets have one file of features (`trn_X_Xf.txt`) and one of labels
(`trn_X_Y.txt`). Each is a sparse matrix:

    2 100
    3:0.5 42:1.25
    7:2

The first line says how many rows and columns there are. Each other line is a
row: its non-zero columns with their values, which are 1 for labels.
`load_extreme("trn_X_Xf.txt", labels="trn_X_Y.txt")` reads such a pair, and
`load_sparse("lbl_X_Xf.txt")` reads one matrix, such as the features of labels.

In both formats ids begin with 0. Files may be compressed by gzip.
"""

from tf_hsm.datasets._extreme import ExtremeData, load_extreme
from tf_hsm.datasets._sparse import SparseRows, load_sparse

__all__ = ["ExtremeData", "SparseRows", "load_extreme", "load_sparse"]
