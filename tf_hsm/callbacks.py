"""Callbacks for `model.fit`."""

import time

import keras
import numpy as np
import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.layers import regrouped_layer
from tf_hsm.layers.head_layer import heads_of
from tf_hsm.optimizers import in_place_rules
from tf_hsm.runtime import model_calls, private_keras

_LABELS_PER_CLASS, _MAX_LABELS = 100, 2_000_000
_BATCH = 256  # examples of arrays that pass the body at once


class RegroupClasses(keras.callbacks.Callback):
    """Moves a head to a tree in which similar classes share groups.

    A tree of similar classes learns faster, but the model must have learned
    something before it knows which classes are similar. This callback regroups
    the classes while `model.fit` runs. After some training steps it

    1. computes the hidden vectors h (the inputs of the head) of many examples
       in a forward pass. The vector of a class c with n examples is

           (sum of h where the label is c - n * mean of h) / (n + 1)

    2. puts classes with similar vectors into the same groups, by
       `Tree.regroup`;
    3. fits the rows of the head to the new groups, by `head.regroup`, so that
       the loss hardly changes, and lets Keras trace the training step again.

    >>> model.fit(x, y, callbacks=[
    ...     tf_hsm.callbacks.RegroupClasses(at=1000, data=(x, y))])

    The head is a `HierarchicalSoftmax`, on one device or several, or an
    `EmbeddingSoftmax`, with one label for each input. The tree keeps its shape,
    and each class keeps its depth.

    The optimizer counts the steps: the layer's own optimizer or, if the layer
    has none, the optimizer of the model. A loaded model continues with the new
    tree, and the callback skips the steps that the optimizer has done. List
    this callback before callbacks that save. The head moves back to its old
    tree where `EarlyStopping(restore_best_weights=True)` restores weights from
    before.

    Args:
      at: a step, or a list of steps, after which the classes are regrouped.
      data: `(x, y)`, arrays as for `fit`, a tuple; or a `tf.data.Dataset` of
        batches `(x, y)`, or another iterable that can be read again. With
        `(x, y, sample_weight)`, examples of weight 0 do not count. The callback
        takes a random choice of the examples of arrays, and the first examples
        of a dataset.
      vectors: `[N, D]`, a vector for each class, such as word vectors, in place
        of the vectors of step 1; or None.
      examples: how many labels step 1 takes; when None, 100 for each class, at
        most 2 million. With few, the groups are worse than before.
      probes: how many inputs step 3 takes. The callback takes as many other
        inputs to print the perplexity before and after.
      keep_depths: see `Tree.regroup`.
      head: the head, if the model has several.
      body: a model or a function from `x` to the inputs of the head; needed if
        the model is neither Sequential nor functional.
      seed: an integer, at least 0.
      verbose: whether to print a line for each regrouping.

    Raises:
      ValueError: an argument is out of its range. In `fit`: the model has no
        head, several, or one that cannot be regrouped.
    """

    def __init__(
        self,
        at,
        data,
        *,
        vectors=None,
        examples=None,
        probes=4096,
        keep_depths=True,
        head=None,
        body=None,
        seed=0,
        verbose=True,
    ):
        super().__init__()
        steps = np.ravel(at).tolist()
        if not steps:
            raise ValueError("at is empty; give a step or a list of steps")
        self._at = sorted(_checks.check_int("at", step, 1) for step in steps)
        if isinstance(data, list) and not all(
            isinstance(batch, (tuple, list)) for batch in data
        ):
            raise ValueError(
                "data is a list of arrays; give a tuple (x, y), or a list of "
                "batches (x, y)"
            )
        if iter(data) is data:
            raise ValueError(
                "data is an iterator, which can be read once only; give arrays "
                "(x, y) or a tf.data.Dataset"
            )
        self._data = data
        self._vectors = vectors
        if examples is not None:
            examples = _checks.check_int("examples", examples, 1)
        self._examples = examples
        self._probes = _checks.check_int("probes", probes, 1)
        self._keep_depths = keep_depths
        self._given_head = head
        self._given_body = body
        self._seed = _checks.check_int("seed", seed, 0)
        self._verbose = verbose

    def on_train_begin(self, logs=None):
        """Finds the head, and which steps are done."""
        del logs
        self._head = self._find_head()
        self._last = self._step()
        _let_weights_keep_their_trees(self.model)

    def on_train_batch_end(self, batch, logs=None):
        """Regroups the classes if it is time to."""
        del batch, logs
        if self._last >= self._at[-1]:
            return
        last, self._last = self._last, self._step()
        for step in self._at:
            if last < step <= self._last:
                self._regroup(step)

    def _step(self):
        optimizer = self._head.optimizer or self.model.optimizer
        return int(optimizer.iterations)

    def _find_head(self):
        heads = heads_of(self.model)
        if self._given_head is not None:
            heads = [x for x in heads if x is self._given_head]
        if len(heads) != 1:
            names = ", ".join(x.name for x in heads) or "none that was given"
            raise ValueError(
                f"{self.model.name} must have one head to regroup, or head=... "
                f"must name it; its heads are {names}"
            )
        (head,) = heads
        if head.built:
            regrouped_layer.check_possible(head)
        if head.several_labels or head.node_labels:
            raise ValueError(
                f"{head.name} has several_labels or node_labels, of which "
                "RegroupClasses makes no vectors; call head.regroup(tree, "
                "inputs, model=model) between two calls of fit"
            )
        return head

    def _regroup(self, step):
        start = time.monotonic()
        head = self._head
        rows = regrouped_layer.check_possible(head)
        seen = _Seen(head.num_classes, 2 * self._probes)
        limit = 2 * self._probes
        if self._vectors is None:
            per_class = _LABELS_PER_CLASS * head.num_classes
            limit = self._examples or min(per_class, _MAX_LABELS)
        for hidden, labels in self._hidden(
            regrouped_layer.width_of(head), step
        ):
            seen.add(hidden[: limit - seen.count], labels[: limit - seen.count])
            if seen.count >= limit:
                break
        if seen.count < 2:
            raise ValueError("data of RegroupClasses has fewer than 2 labels")
        vectors = seen.vectors() if self._vectors is None else self._vectors
        tree = head.tree.regroup(
            vectors,
            keep_depths=self._keep_depths,
            seed=self._seed,
            verbose=self._verbose,
        )
        moved = np.count_nonzero(tree.class_rows != head.tree.class_rows)
        hidden, labels = seen.first()
        held = hidden[1::2], labels[1::2]
        before = _perplexity(rows, *held)
        regrouped_layer.move(head, tree, hidden[0::2], self.model.optimizer)
        private_keras.forget_traces(self.model)
        rows = regrouped_layer.check_possible(head)
        after = _perplexity(rows, *held)
        if self._verbose:
            print(
                f"\nstep {step}: moved {moved:,} of {head.num_classes:,} "
                f"classes, by {seen.count:,} labels; perplexity of "
                f"{held[1].size:,} held inputs {before:.5g} before, "
                f"{after:.5g} after; {time.monotonic() - start:.1f} s",
                flush=True,
            )

    def _hidden(self, width, step):
        """Yields hidden vectors `[n, width]` and their labels `[n]`."""
        body, ignored = self._body(), self._head.ignore_class
        for x, y, *weights in _batches(self._data, [self._seed, step]):
            hidden, mask = body(x)
            labels = np.asarray(y).reshape(-1)
            counts = labels >= 0
            if ignored is not None:
                counts &= labels != ignored
            for given in (mask, *weights[:1]):
                if given is not None:
                    counts &= np.asarray(given).reshape(-1) != 0
            labels = labels[counts]
            if labels.max(initial=0) >= self._head.num_classes:
                raise ValueError(
                    f"data has the label {labels.max()}, but {self._head.name} "
                    f"has {self._head.num_classes} classes"
                )
            yield hidden.numpy().reshape(-1, width)[counts], labels

    def _body(self):
        """Returns a function from x to hidden vectors and their mask."""
        body = self._given_body or self._model_below()

        @tf.function(reduce_retracing=True)
        def hidden(x):
            found = body(x)
            hidden = self._head._hidden(found)
            hidden = tf.cast(hidden, self._head.loss_dtype)
            return hidden, private_keras.mask_of(found)

        return hidden

    def _model_below(self):
        for call in model_calls.calls_of(self.model) or []:
            if call.operation is self._head:
                return keras.Model(self.model.inputs, call.first_argument())
        raise ValueError(
            f"the layers below {self._head.name} are not known, since "
            f"{self.model.name} is neither a Sequential nor a functional model "
            "that calls it; give body=..., which makes its inputs of x"
        )


class _WeightsOfTrees(list):
    """What `model.get_weights()` returned, and the heads' `trees` then."""


def _let_weights_keep_their_trees(model):
    """Lets heads move back to the trees of weights that their model gets back.

    Keras' callbacks keep what `model.get_weights()` has returned.
    """
    heads = [head for head in heads_of(model) if hasattr(head, "tree")]

    def get_weights():
        found = _WeightsOfTrees(type(model).get_weights(model))
        found.trees = [head.tree for head in heads]
        return found

    def set_weights(weights):
        trees = getattr(weights, "trees", [head.tree for head in heads])
        for head, tree in zip(heads, trees, strict=True):
            if tree != head.tree:
                regrouped_layer.move(head, tree, None, model.optimizer)
                private_keras.forget_traces(model)
        type(model).set_weights(model, weights)

    model.get_weights, model.set_weights = get_weights, set_weights


class _Seen:
    """Sums of hidden vectors by class, and the first of them."""

    def __init__(self, num_classes, num_first):
        self.count = 0
        self._num_classes = num_classes
        self._num_first = num_first
        self._first = []
        self._sums = None

    def add(self, hidden, labels):
        """Adds hidden vectors `[n, width]` of labels `[n]`."""
        if self.count < self._num_first:
            self._first.append((hidden, labels))
        if self._sums is None:
            shape = [self._num_classes, hidden.shape[1]]
            self._sums = np.zeros(shape, np.float32)
            self._counts = np.zeros(shape[:1], np.int64)
        order = np.argsort(labels, kind="stable")
        classes, begins = np.unique(labels[order], return_index=True)
        if classes.size:
            sums = np.add.reduceat(hidden[order], begins)
            self._sums[classes] += sums
            self._counts[classes] += np.diff(begins, append=labels.size)
        self.count += labels.size

    def first(self):
        """Returns the first hidden vectors and their labels."""
        hidden, labels = map(np.concatenate, zip(*self._first, strict=True))
        return hidden[: self._num_first], labels[: self._num_first]

    def vectors(self):
        """Returns the vectors `[N, width]` of the classes."""
        mean = self._sums.sum(0, np.float64) / self.count
        counts = self._counts[:, None]
        return (self._sums - counts * mean) / (counts + 1)


def _batches(data, seed):
    """Yields batches of data as TensorFlow and NumPy take them."""
    if not isinstance(data, tuple):
        yield from data
        return
    size = len(keras.tree.flatten(data)[0])
    order = np.random.default_rng(seed).permutation(size)
    for begin in range(0, size, _BATCH):
        rows = np.sort(order[begin : begin + _BATCH])
        yield keras.tree.map_structure(
            lambda array, rows=rows: np.asarray(array)[rows], data
        )


def _perplexity(head, hidden, labels):
    log_probs = head.log_prob(labels[:, None], hidden)
    return float(np.exp(-np.mean(log_probs)))


class FollowLearningRate(keras.callbacks.Callback):
    """Lets the optimizers of heads follow the rate of the model's optimizer.

    Before each batch of `fit` it sets the learning rate of each head that has
    an optimizer of its own:

        rate of the head = factor * rate of the model

    So callbacks that set the rate of the model's optimizer, and the schedule of
    that optimizer, act on the heads too. List this callback last.

    >>> head = tf_hsm.layers.HierarchicalSoftmax(tree, optimizer="adagrad")
    >>> model.fit(x, y, callbacks=[
    ...     keras.callbacks.ReduceLROnPlateau("loss"),
    ...     tf_hsm.callbacks.FollowLearningRate(10.0)])

    Args:
      factor: a number above 0.
      heads: a list of heads; None for all heads of the model that have an
        optimizer of their own.

    Raises:
      ValueError: `factor` is not above 0. In `fit`: no head has an optimizer of
        its own, or that optimizer has a schedule.
    """

    def __init__(self, factor=1.0, *, heads=None):
        super().__init__()
        if not (factor > 0 and np.isfinite(factor)):
            raise ValueError(f"factor is {factor}, but must be above 0")
        self._factor = factor
        self._given_heads = heads

    def on_train_begin(self, logs=None):
        """Finds the heads."""
        del logs
        heads = self._given_heads
        if heads is None:
            heads = heads_of(self.model)
            heads = [head for head in heads if head.optimizer is not None]
        if not heads or any(head.optimizer is None for head in heads):
            raise ValueError(
                "FollowLearningRate needs a head with an optimizer of its own, "
                "optimizer=...; the optimizer of the model trains the others"
            )
        for head in heads:
            if in_place_rules.has_schedule(head.optimizer):
                raise ValueError(
                    f"{head.name}: its own optimizer has a schedule, which "
                    "cannot follow another rate; give it a number"
                )
        self._heads = heads
        self._rate = None

    def on_train_batch_begin(self, batch, logs=None):
        """Sets the rates if the rate of the model has changed."""
        del batch, logs
        rate = float(self.model.optimizer.learning_rate)
        if rate == self._rate:
            return
        self._rate = rate
        for head in self._heads:
            head.optimizer.learning_rate = self._factor * rate
