"""The ways to make a tree: `Tree` inherits them."""

from tf_hsm.tree.builders import adaptive as builders_adaptive
from tf_hsm.tree.builders import balanced as builders_balanced
from tf_hsm.tree.builders import embeddings, nodes
from tf_hsm.tree.builders import huffman as builders_huffman


class TreeConstructors:
    """Class methods that call their class with what a builder returns."""

    @classmethod
    def balanced(cls, num_classes, branching):
        """A tree whose leaves, in class order, are spread as evenly as can be.

        A node with n classes below it has `min(branching, n)` children, whose
        numbers of classes differ by at most one; a node with one class is its
        leaf. With one int for all levels, the depths of two leaves differ by
        at most one.

        Args:
          num_classes: N, at least 1.
          branching: the largest fanout, at least 2; or a list of one per
            level, each at least 1, whose product is at least N. Levels of
            the list that are not needed stay unused.

        Raises:
          ValueError: an argument is out of range, or too few leaves fit.
        """
        return cls(*builders_balanced.balanced(num_classes, branching))

    @classmethod
    def two_level(cls, num_classes):
        """About sqrt(N) groups of about sqrt(N) classes, in class order.

        The classes are spread evenly over `round(sqrt(N))` groups; up to
        three classes are one group.

        Raises:
          ValueError: `num_classes` is not a positive integer.
        """
        return cls(*builders_balanced.two_level(num_classes))

    @classmethod
    def huffman(cls, counts, branching=2):
        """The tree with the smallest mean depth for the given counts.

        Every group has `min(branching, N)` rows but for the last one, which
        is among the deepest and takes what is left. Heavy rows come first in
        a group. Equal counts are told apart by the class number, the smaller
        one being nearer to the root, so that the tree is reproducible.
        After Huffman (1952), in O(N) past the sort.

        Args:
          counts: `[N]`, how often each class occurs; zeros are allowed.
            Integers are summed exactly in int64, floats in float64.
          branching: the fanout, at least 2.

        Raises:
          ValueError: a count is negative, infinite or NaN (names the class),
            or the total does not fit its type.
        """
        return cls(*builders_huffman.huffman(counts, branching))

    @classmethod
    def adaptive(
        cls,
        counts,
        num_clusters="auto",
        batch=1024,
        width=512,
        tail="flat",
        min_head=None,
        cost_model=None,
        cutoffs=None,
    ):
        """Frequency clusters that take the least time for the given counts.

        The root's group holds the most frequent classes and then one row per
        tail. Classes need no order; equal counts go by the class number. After
        Grave et al. (2016: Efficient softmax approximation for GPUs).

        Args:
          counts: `[N]`, how often each class occurs; zeros are allowed.
          num_clusters: the number of tails, several to choose from, or "auto":
            the best of 1 to 8, or none if there are at most two classes.
          batch: the examples in a step.
          width: that of the inputs.
          tail: "flat" if a tail is one group; "two_level", or the branching of
            a balanced tree: then no group of a large tail is long.
          min_head: the fewest classes in the head; by default about sqrt(N).
          cost_model: a `tf_hsm.CostModel`; by default that of a machine of two
            cores.
          cutoffs: ascending, as for PyTorch, in place of the best ones; then
            only `counts` and `tail` count.

        Raises:
          ValueError: an argument is out of range; names it.
        """
        return cls(
            *builders_adaptive.adaptive(
                counts,
                num_clusters,
                batch,
                width,
                tail,
                min_head,
                cost_model,
                cutoffs,
            )
        )

    @classmethod
    def from_embeddings(
        cls,
        vectors,
        branching=None,
        seed=0,
        metric="cosine",
        max_iterations=50,
        verbose=True,
    ):
        """A tree in which classes with similar vectors are near each other.

        It has the shape of `balanced(N, branching)`, and the classes below a
        node are divided among its children so that similar ones stay together.
        In a group the leaves stand in class order.

        The division lowers the squared distances to the children's means: by
        two-means with parts of given sizes (Prabhu et al., 2018: Parabel),
        then by exchange between children. It takes O(N D) time for each
        halving and for each round of exchange. The same arguments give the
        same tree, whatever the number of threads.

        Args:
          vectors: `[N, D]` real numbers, one vector per class, such as the
            word vectors of a model that was trained before.
          branching: as for `balanced`; the shape of `two_level(N)` when None.
          seed: an integer, at least 0; another one may find another tree.
          metric: "cosine" compares directions; vectors of zeros, which have
            none, are similar to each other only. "euclidean" compares
            positions.
          max_iterations: the most steps of two-means in a halving, and the
            most rounds of exchange at a level; at least 1.
          verbose: whether to write to stderr, every few seconds, how far it is.

        Raises:
          ValueError: `vectors` has another rank, no numbers, or one that is
            NaN or infinite (names the class), or an argument is out of range.
        """
        return cls(
            *embeddings.from_embeddings(
                vectors, branching, seed, metric, max_iterations, verbose
            )
        )

    @classmethod
    def from_parents(cls, parents, classes=None, names=None):
        """A tree given by the parent of each node.

        Nodes are numbered as the caller likes; siblings keep their order.

        Args:
          parents: `[M]` integers, the parent of each node; -1 for the root.
          classes: `[M]` integers, the class of each leaf, and -1 for each
            node with children. By default the leaves, in node order, are the
            classes 0 to N - 1.
          names: `[M]` strs, the name of each node, or None; the root's is
            dropped.

        Raises:
          ValueError: there is not exactly one root, a parent is not a node, a
            node is its own ancestor, a class is missing, out of range or
            given twice, or a name is not a str; names the node.
        """
        return cls(*nodes.from_parents(parents, classes, names))

    @classmethod
    def from_paths(cls, paths):
        """A tree given by one path per class, like the paths of files.

        Paths that begin with the same keys share the nodes of those keys.
        Siblings stand in the order in which they first occur. If all keys are
        strs, they are the names of the rows.

        Args:
          paths: for each class a tuple of hashable keys, at least one.

        Raises:
          ValueError: two classes have the same path, or one class's path is
            the beginning of another's; names the classes.
        """
        return cls(*nodes.from_paths(paths))

    @classmethod
    def from_nested(cls, nested_lists):
        """A tree given by nested lists of classes, such as `[[0, 1], [2]]`.

        A list is a node with children, an integer is the leaf of that class.
        Any depth of nesting works.

        Raises:
          ValueError: a list is empty, or the integers are not exactly the
            numbers 0 to N - 1.
        """
        return cls(*nodes.from_nested(nested_lists))
