"""The class methods by which `Tree` is built."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tf_hsm.tree.builders.adaptive import adaptive
from tf_hsm.tree.builders.balanced import balanced, flat, two_level
from tf_hsm.tree.builders.data import from_data
from tf_hsm.tree.builders.embeddings import from_embeddings
from tf_hsm.tree.builders.huffman import huffman
from tf_hsm.tree.builders.nested import from_nested
from tf_hsm.tree.builders.nodes import from_parents
from tf_hsm.tree.builders.paths import from_paths

if TYPE_CHECKING:
    from typing_extensions import Self


class TreeConstructors:
    """The class methods by which `Tree` is built: it inherits them."""

    @classmethod
    def balanced(
        cls,
        num_classes: int,
        branching: int | Sequence[int],
        *,
        pinned: bool = False,
    ) -> "Self":
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
          pinned: whether each group, of two rows, has one row of weights: see
            `Tree.pin`.

        Raises:
          ValueError: an argument is out of range, too few leaves fit, or the
            tree passes the memory of the machine; says how many bytes it needs.
            Or `pinned`, and a group does not have two rows.
        """
        return cls(*balanced(num_classes, branching), pinned=pinned)

    @classmethod
    def two_level(cls, num_classes: int) -> "Self":
        """About sqrt(N) groups of about sqrt(N) classes, in class order.

        The classes are spread evenly over `round(sqrt(N))` groups; up to
        three classes are one group.

        Raises:
          ValueError: `num_classes` is not a positive integer, or the tree
            passes the memory of the machine.
        """
        return cls(*two_level(num_classes))

    @classmethod
    def flat(cls, num_classes: int) -> "Self":
        """One group of all classes: the full softmax.

        Row c of the weights is class c. A head with this tree has the losses,
        the gradients and the answers of the full softmax, and never stores its
        logits: see docs/flat.md. Each example costs N rows.

        >>> Tree.flat(50_000).depth
        1

        Raises:
          ValueError: `num_classes` is not a positive integer, or the tree
            passes the memory of the machine.
        """
        return cls(*flat(num_classes))

    @classmethod
    def huffman(cls, counts, *, branching=2, pinned=False) -> "Self":
        """The tree with the smallest mean depth for the given counts.

        Every group has `min(branching, N)` rows but for the last one, which
        is among the deepest and takes what is left. Heavy rows come first in
        a group. Equal counts are told apart by the class number, the smaller
        one being nearer to the root, so that the tree is reproducible.
        After Huffman (1952), in O(N) past the sort.

        Args:
          counts: `[N]`, how often each class occurs; zeros are allowed.
            Integers are summed exactly in int64, floats in float64. Or a dict,
            a `collections.Counter` or a pandas Series. Keys that are strs are
            the names of the classes 0 to N - 1, in this order, and the tree
            keeps them; keys that are integers are the classes.
          branching: the fanout, at least 2.
          pinned: whether each group, of two rows, has one row of weights: see
            `Tree.pin`.

        Raises:
          ValueError: a count is negative, infinite or NaN (names the class),
            the total does not fit its type, or keys are not as above; or
            `pinned`, and a group does not have two rows.
        """
        return cls(**huffman(counts, branching), pinned=pinned)

    @classmethod
    def from_counts(cls, counts, *, names=None, branching=256) -> "Self":
        """The tree to begin with where it is known how often classes occur.

        That is `huffman(counts, branching=256)`: a frequent class has a short
        path, and groups are long enough to stream through memory.

        >>> tree = Tree.from_counts({"the": 60, "of": 30, "cat": 1})
        >>> tree.class_of("of"), tree.class_name(1)
        (1, 'of')

        Args:
          counts: as for `huffman`: `[N]`, or a mapping that has the names.
          names: `[N]` strs, the name of each class, where `counts` has none.
          branching: the fanout, at least 2.

        Raises:
          ValueError: as for `huffman`; or there is not one str per class, or
            both arguments have names.
        """
        return cls(**huffman(counts, branching, names))

    @classmethod
    def from_data(
        cls,
        labels,
        contexts=None,
        *,
        num_classes=None,
        names=None,
        ordered=None,
        several_labels=False,
        long_training=False,
        seed=0,
        verbose=True,
    ) -> "Self":
        """Makes a tree from training data, in one pass over the data.

        Classes that occur in similar contexts share groups, so that the
        examples of all classes of a group train it. The most frequent classes
        are leaves of the root's group. The tree keeps the counts of the
        classes, and the biases of layers begin there. docs/fit.md compares the
        fit with the full softmax.

        >>> contexts = [[7, 5], [5, 3], [7, 4]]  # two words before each label
        >>> Tree.from_data([0, 2, 1], contexts).counts.tolist()
        [1, 1, 1]

        `Tree.from_data(dataset)` reads a `tf.data.Dataset` of (contexts,
        labels).

        1. Count how often each class occurs, and with which ids of its context.
           The contexts of 256 random examples of each class are counted,
           since more hardly change the tree. Late examples of a class in a
           dataset, which is read once, are counted less often.
        2. Factor the association of classes and ids into vectors:
           `tf_hsm.tree.data.pair_vectors` has the formula.
        3. Cluster the vectors into groups of equal size, as `from_embeddings`
           does. There are min(256, 2 sqrt(N)) clusters. Groups below the
           clusters have at most 256 rows: the tree has two levels up to about
           60,000 classes, then three. Up to 256 classes are one group, which is
           the full softmax.
        4. Put the m most frequent classes into the root's group. m minimizes::

               expected loss + 0.2 log10(examples / N) mean depth
               + 0.1 log(time of a step),

           in nats. `Tree.expected_loss` measures the clusters, on these
           examples. A level costs more where each class has more examples: a
           class that is often the label learns by itself what its group could
           teach it. A step may be 10% slower for 0.01 nats. With
           `long_training`, the numbers are 0.3 and 0.01.

        Without contexts, the result is the tree of `from_counts`.

        Args:
          labels: integers `[...]` or `[..., 1]`, the class of each example.
            Negative labels do not count. Or an iterable of batches
            `(contexts, labels)` or `(contexts, labels, weights)`, such as a
            `tf.data.Dataset`. Labels of weight 0 do not count; other weights
            have no effect. Padding needs a weight of 0 or a negative label.
          contexts: integer ids that are known before the label: words of a
            text, items of a basket or a session, features. Negative ids stand
            for none.

            - `[..., C]`: C ids for each label, such as the last C words.
            - `[n]` for labels `[n]`: one id for each label.
            - `[..., T]` for labels `[..., T]`: sequences. The context of a
              label is the id at its position and the id before that, as in a
              language model whose label is the next token.
            - a `tf.RaggedTensor` for labels `[n]`: bags.

          num_classes: N; when None, one more than the largest label.
          names: `[N]` strs, the name of each class; or None.
          several_labels: whether each example has a set of labels, for a
            `LabelTree` or a layer with `several_labels`. Labels are then
            `[n, M]`, padded with negative numbers, or a `tf.RaggedTensor`, and
            contexts are `[n]`, `[n, C]` or ragged. Without contexts, the
            context of a label is the other labels of its set.
          long_training: whether the loss at the end of many epochs counts, and
            hardly the time until then. More classes are then in the root's
            group, up to 2,048, and steps take longer; docs/fit.md has by how
            much, and what that gains.
          ordered: whether the position of an id in `[..., C]` has a meaning.
            When None, it has one unless ids are negative or contexts are
            ragged.
          seed: an integer, at least 0; a different seed can give a different
            tree.
          verbose: whether to write to stderr, every few seconds, how far it is.

        Raises:
          ValueError: there are no labels, a label is not below `num_classes`,
            shapes do not fit, ids are no integers, or a dataset is infinite or
            has other elements.
        """
        return cls(
            **from_data(
                labels,
                contexts,
                num_classes=num_classes,
                names=names,
                ordered=ordered,
                several_labels=several_labels,
                long_training=long_training,
                seed=seed,
                verbose=verbose,
            )
        )

    @classmethod
    def adaptive(
        cls,
        counts,
        *,
        num_clusters="auto",
        batch=1024,
        width=512,
        tail="flat",
        min_head=None,
        cost_model=None,
        cutoffs=None,
    ) -> "Self":
        """Frequency clusters that take the least time for the given counts.

        The root's group holds the most frequent classes, the shortlist, and
        then one row per tail. Classes need no order; equal counts go by the
        class number. After Grave et al. (2016: Efficient softmax approximation
        for GPUs).

        Args:
          counts: `[N]`, how often each class occurs; zeros are allowed. Or a
            mapping with the names of the classes, as for `huffman`.
          num_clusters: the number of tails, several to choose from, or "auto":
            the best of 1 to 8, or none if there are at most two classes.
          batch: the examples in a step.
          width: of the inputs.
          tail: "flat" if a tail is one group; "two_level", or the branching of
            a balanced tree: then no group of a large tail is long.
          min_head: the fewest classes in the shortlist; by default about
            sqrt(N).
          cost_model: a `tf_hsm.CostModel`; by default a machine of two
            cores.
          cutoffs: ascending, as for PyTorch, in place of the best ones; then
            only `counts` and `tail` count.

        Raises:
          ValueError: an argument is out of range; names it.
        """
        return cls(
            **adaptive(
                counts,
                num_clusters=num_clusters,
                batch=batch,
                width=width,
                tail=tail,
                min_head=min_head,
                cost_model=cost_model,
                cutoffs=cutoffs,
            )
        )

    @classmethod
    def from_embeddings(
        cls,
        vectors,
        *,
        branching=None,
        seed=0,
        metric="cosine",
        max_iterations=50,
        verbose=True,
        pinned=False,
    ) -> "Self":
        """A tree in which classes with similar vectors are near each other.

        It has the shape of `balanced(N, branching)`, and the classes below a
        node are divided among its children so that similar ones stay together.
        In a group the leaves stand in class order.

        The division lowers the squared distances to the children's means: by
        two-means with parts of given sizes (Prabhu et al., 2018: Parabel),
        then by exchange between children. It takes O(N D) time for each
        halving and for each round of exchange. Equal arguments give
        equal trees, whatever the number of threads.

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
          pinned: whether each group, of two rows, has one row of weights: see
            `Tree.pin`.

        Raises:
          ValueError: `vectors` has another rank, no numbers, or one that is
            NaN or infinite (names the class), or an argument is out of range;
            or `pinned`, and a group does not have two rows.
        """
        return cls(
            *from_embeddings(
                vectors,
                branching=branching,
                seed=seed,
                metric=metric,
                max_iterations=max_iterations,
                verbose=verbose,
                pinned=pinned,
            ),
            pinned=pinned,
        )

    @classmethod
    def from_parents(cls, parents, *, classes=None, names=None) -> "Self":
        """A tree given by the parent of each node.

        Nodes are numbered as the caller likes; siblings keep their order.

        >>> parents = {"cat": "animal", "oak": "plant"}
        >>> parents |= {"animal": None, "plant": "animal"}
        >>> Tree.from_parents(parents).path_names(1)
        ['plant', 'oak']

        Args:
          parents: `[M]` integers, the parent of each node; -1 for the root. Or
            a dict from each node to its parent, the root's being None or
            missing; or a directed graph of networkx, whose edges go from the
            parent to the child. Nodes may then be any hashable objects and
            stand in the order of the dict or the graph. If all are strs, they
            are the names of the rows.
          classes: `[M]` integers, the class of each leaf, and -1 for each
            node with children. By default the leaves, in node order, are the
            classes 0 to N - 1. Where `parents` is no array, a dict from each
            leaf to its class.
          names: `[M]` strs, the name of each node, or None; the root's is
            dropped. Only where `parents` is an array.

        Raises:
          ValueError: there is not exactly one root, a parent is not a node, a
            node is its own ancestor, a class is missing, out of range or
            given twice, or a name is not a str; names the node.
        """
        return cls(**from_parents(parents, classes, names))

    @classmethod
    def from_paths(cls, paths) -> "Self":
        """A tree given by one path per class, like the paths of files.

        Paths that begin with the same keys share the nodes of those keys.
        Siblings stand in the order in which they first occur. If all keys are
        strs, they are the names of the rows.

        >>> Tree.from_paths([("animal", "cat"), ("plant",)]).path_names(0)
        ['animal', 'cat']

        Args:
          paths: for each class a tuple, list or array of hashable keys, at
            least one. Or an array `[N, L]`, or a pandas DataFrame, with a path
            in each row; shorter paths end with "", None, NaN or -1, and masked
            entries.

        Raises:
          ValueError: two classes have the same path, or one class's path is
            the beginning of another's; names the classes. Or `paths` has
            another form.
        """
        return cls(**from_paths(paths))

    @classmethod
    def from_nested(cls, nested_lists) -> "Self":
        """A tree given by nested lists or dicts, such as `[[0, 1], [2]]`.

        A list is a node with children, an integer is the leaf of that class. A
        dict is such a node too, and its keys, strs, are the names of the
        children. In place of its class a leaf may have None in a dict, and its
        name in a list: then the classes are 0 to N - 1 in order. Any depth of
        nesting works.

        >>> tree = Tree.from_nested({"animal": ["cat", "dog"], "plant": None})
        >>> tree.path_names(1), tree.class_name(2)
        (['animal', 'dog'], 'plant')

        Raises:
          ValueError: a list or a dict is empty, or the integers are not exactly
            the numbers 0 to N - 1; or only some of the leaves have a class.
        """
        return cls(**from_nested(nested_lists))
