"""The base of the optimizers: a step on the touched rows, or on all.

The class replaces what Keras does with a sparse gradient, mostly on the whole
variable:

    sparse gradient             Keras                    here
    repeated rows               never summed             summed first
    clipnorm                    over repeated rows       over unique rows
    clipping on replicas        of each one's gradient   of the sum
    global_clipnorm, clipvalue  as a dense tensor        on the values
    weight_decay                all rows                 touched rows
    loss_scale_factor           TypeError                on the values
    use_ema, accumulation       all rows                 ValueError
    constraint of a variable    all rows                 touched rows
"""

import collections
import functools

import keras
import numpy as np
import tensorflow as tf

from tf_hsm.optimizers import _sparse_update
from tf_hsm.optimizers._rounding import round_at_random
from tf_hsm.optimizers._unique_slices import (
    SummedSlices,
    UniqueSlices,
    sum_repeated,
    widen,
)
from tf_hsm.runtime import (
    gradients,
    private_optimizer,
    replicas,
    row_parts,
)
from tf_hsm.runtime.arguments import accumulator
from tf_hsm.runtime.variables import explain_lost_values, variable_of


class RowOptimizer(private_optimizer.ApplySteps):
    """To be named before a Keras optimizer among the bases of a class.

    The class adds `_step(gradient, slots, rate, is_sparse)`, which computes one
    step, on some rows (`is_sparse`) or on all, from the gradient `[U, ...]`, a
    list of the same rows of each slot, and the learning rate, all of one type.
    It returns a list of the slots' new rows, and what is subtracted from the
    variable's rows.

    A class whose step on rows can be one op also has `_rule(rate)`, and
    `_rule_name`, the name of its rule in the ops without options: layers take
    it in place too, but for the options `_not_in_place`.
    """

    _rule_name = None
    _not_in_place = ()

    def slots(self, variable):
        """Returns the variables that hold the state of one variable.

        Args:
          variable: one of those that the optimizer was built with.

        Returns:
          A list of `keras.Variable`; the class says which. They are float32
          where `variable` has 16 bits, else of its type.

        Raises:
          ValueError: the optimizer was not built with `variable`.
        """
        own = private_optimizer.built_variable(self, variable)
        return list(self._slots[id(own)])

    @functools.cached_property
    def _slots(self):
        """The slots by the ids of their variables, in the order of `build`."""
        return collections.defaultdict(list)

    def knows(self, variables):
        """Whether the optimizer was built with these variables."""
        own = {id(v) for v in private_optimizer.built_variables(self)}
        return self.built and all(id(v) in own for v in variables)

    def _rule(self, rate):
        """The `_sparse_update.Rule` of the next step, or None if there is none.

        Args:
          rate: the learning rate, as for `_step`.
        """
        del rate
        return None

    def _slot_shape(self, shape):
        """The shape of the slots of a variable with this shape."""
        return shape

    def add_variable(self, shape, initializer="zeros", dtype=None, **kwargs):
        """Adds a variable to the optimizer's state; see Keras."""
        # Slots are added once Keras' own part is built, its averages before.
        if self.built:
            shape = self._slot_shape(shape)
            dtype = accumulator(dtype or keras.config.floatx()).name
        return super().add_variable(shape, initializer, dtype, **kwargs)

    def add_variable_from_reference(
        self, reference_variable, name=None, initializer="zeros"
    ):
        """Adds a variable that goes with another, on its device; see Keras."""
        part = row_parts.part_of(reference_variable)
        with row_parts.beside(reference_variable):
            if part is None:
                slot = super().add_variable_from_reference(
                    reference_variable, name, initializer
                )
            else:
                # A strategy takes no reference but a variable with copies.
                path = reference_variable.path.replace("/", "_")
                slot = self.add_variable(
                    reference_variable.shape,
                    initializer,
                    reference_variable.dtype,
                    name=f"{path}_{name or 'var'}",
                )
                whole = id(self), part.whole, name
                row_parts.place(slot, None, part._replace(whole=whole))
        if self.built:
            self._slots[id(reference_variable)].append(slot)
        return slot

    def save_own_variables(self, store):
        """Writes the state; see Keras."""
        row_parts.save(self.variables, store)

    def load_own_variables(self, store):
        """Reads the state; see Keras."""
        if len(store.keys()) != len(row_parts.wholes(self.variables)):
            super().load_own_variables(store)  # It warns.
        else:
            row_parts.load(self.variables, store)

    def apply(self, grads, trainable_variables=None):
        """Updates variables by their gradients.

        Args:
          grads: a list of tensors, `tf.IndexedSlices` and None.
          trainable_variables: a list of variables, or None for those that the
            optimizer was built with.

        Raises:
          ValueError: a gradient is sparse, and what is asked for takes work on
            the whole variable: `use_ema`, `gradient_accumulation_steps` or a
            constraint that takes the variable's rows together.
        """
        grads = [
            gradients.mark_stand_ins(g)
            if isinstance(g, tf.IndexedSlices) and not self._is_summed(g)
            else g
            for g in grads
        ]
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
        variables = trainable_variables or private_optimizer.built_variables(
            self
        )
        with explain_lost_values(lambda: variables):
            for gradient, variable in zip(
                grads,
                variables,
                strict=False,  # Keras says what is wrong with their numbers.
            ):
                if isinstance(gradient, tf.IndexedSlices):
                    self._check_sparse(variable)
        if self._looks_at_gradients():
            grads = [
                sum_repeated(g) if isinstance(g, tf.IndexedSlices) else g
                for g in grads
            ]
        super().apply(grads, trainable_variables)

    def _looks_at_gradients(self):
        """Whether Keras does something with them before `update_step`."""
        return any(
            [
                self.clipnorm,
                self.global_clipnorm,
                self.clipvalue,
                self.loss_scale_factor,
            ]
        )

    def _check_sparse(self, variable):
        asked = {
            "use_ema": self.use_ema,
            "gradient_accumulation_steps": self.gradient_accumulation_steps,
            "a constraint of rows together (Keras' are of each with axis=1)": (
                variable.constraint is not None
                and not _takes_rows_alone(
                    variable.constraint,
                    tuple(variable.shape[1:]),
                    variable.dtype,
                )
            ),
        }
        for name, is_asked in asked.items():
            if is_asked:
                raise ValueError(
                    f"{name} is not possible for {variable.name}, whose "
                    "gradient is sparse: it would take work on all "
                    f"{variable.shape[0]:,} rows at every step"
                )

    def _is_summed(self, gradient):
        return isinstance(gradient, SummedSlices)

    def _clipped(self, grads, clip):
        if not self._looks_at_gradients():
            return grads
        clips = self.clipnorm or self.global_clipnorm or self.clipvalue
        replica = replicas.context() if clips else None
        if replica is not None:
            grads = _summed(replica, grads)
        values = clip([widen(g.values if _is_sparse(g) else g) for g in grads])
        clipped = [
            g.with_values(v) if _is_sparse(g) else v
            for g, v in zip(grads, values, strict=True)
        ]
        if replica is not None:
            # Keras adds the gradients of all replicas.
            is_first = tf.equal(replica.replica_id_in_sync_group, 0)
            clipped = [_where(is_first, g) for g in clipped]
        return clipped

    def _left_to_constrain(self, grads, variables):
        # `update_step` has constrained the touched rows of the others.
        return [
            variable
            for gradient, variable in zip(grads, variables, strict=True)
            if not isinstance(gradient, tf.IndexedSlices)
        ]

    def update_step(self, gradient, variable, learning_rate):
        """Updates a variable `[N, ...]`, or the rows that `gradient` names."""
        own = private_optimizer.built_variable(self, variable)
        constraint = own.constraint
        with row_parts.beside(own):
            variable = variable_of(variable)
            if isinstance(gradient, tf.IndexedSlices) and not self._is_summed(
                gradient
            ):
                gradient = gradients.without_stand_ins(gradient)
            self._update(gradient, variable, learning_rate)
            if constraint is None or not isinstance(gradient, tf.IndexedSlices):
                return
            rows = tf.unique(gradient.indices).y
            values = constraint(_read(variable, rows))
            self.assign(variable, _rows_of(values, rows))

    def _update(self, gradient, variable, learning_rate):
        dtype = accumulator(variable.dtype)
        decays = self.weight_decay is not None and (
            private_optimizer.has_decay(self, variable)
        )
        rows = None
        seed = gradient.seed if self._is_summed(gradient) else None
        if isinstance(gradient, tf.IndexedSlices):
            rule = self._rule(tf.cast(learning_rate, dtype))
            slots = [variable_of(s) for s in self.slots(variable)]
            possible = _sparse_update.is_possible(variable, slots)
            if rule and possible:
                if decays:
                    decay = tf.cast(learning_rate, dtype) * self.weight_decay
                    rule = rule._replace(decay=decay)
                _sparse_update.update(
                    variable, slots, gradient, rule, decays, seed
                )
                return
            # Those of several replicas were put together since `apply`.
            gradient = sum_repeated(gradient)
            gradient, rows = gradient.values, gradient.indices
        shape = variable.shape if rows is None else [None, *variable.shape[1:]]
        gradient = tf.ensure_shape(tf.cast(gradient, dtype), shape)
        rate = tf.cast(learning_rate, dtype)
        slots = self.slots(variable)
        values, change = self._step(
            gradient,
            [_read(variable_of(s), rows) for s in slots],
            rate,
            is_sparse=rows is not None,
        )
        for slot, value in zip(slots, values, strict=True):
            self.assign(slot, _rows_of(value, rows))
        if rows is None and not decays and variable.dtype == dtype:
            self.assign_sub(variable, change)
            return
        # For rows that also takes half the time of scatter_sub.
        value = tf.cast(_read(variable, rows), dtype)
        if decays:
            value -= value * self.weight_decay * rate
        value -= change
        if seed is not None:
            value = round_at_random(value, seed)
        self.assign(variable, _rows_of(value, rows))


@functools.lru_cache(maxsize=128)
def _takes_rows_alone(constraint, shape, dtype):
    """Whether a constraint is of each row by itself.

    Tries it on a few rows together and on each: large ones, small ones.
    """
    rows = np.random.default_rng(0).normal(size=[3, *shape])
    with tf.init_scope():
        for scale in (1e-3, 1.0, 1e3):
            values = tf.cast(scale * rows, dtype)
            together = tf.cast(constraint(values), tf.float64)
            alone = [constraint(values[i : i + 1]) for i in range(3)]
            alone = tf.cast(tf.concat(alone, 0), tf.float64)
            if not np.allclose(together, alone, rtol=1e-2, atol=0):
                return False
    return True


def _is_sparse(gradient):
    return isinstance(gradient, UniqueSlices)


def _summed(replica, grads):
    """Returns the sums of the gradients of all replicas."""
    given = [
        tf.IndexedSlices(g.values, g.indices, g.dense_shape)
        if _is_sparse(g)
        else widen(g)
        for g in grads
    ]
    sums = replica.all_reduce(tf.distribute.ReduceOp.SUM, given)
    return [
        sum_repeated(g) if isinstance(g, tf.IndexedSlices) else g for g in sums
    ]


def _where(condition, gradient):
    """Returns a gradient where a scalar is true; else zeros, or no rows."""
    if not _is_sparse(gradient):
        return tf.where(condition, gradient, tf.zeros_like(gradient))
    count = tf.where(condition, tf.size(gradient.indices), 0)
    return UniqueSlices(
        gradient.values[:count],
        gradient.indices[:count],
        gradient.dense_shape,
    )


def _read(variable, rows):
    """Returns the values of a variable, of `rows` only if they are given."""
    return variable.read_value() if rows is None else tf.gather(variable, rows)


def _rows_of(value, rows):
    return value if rows is None else tf.IndexedSlices(value, rows)
