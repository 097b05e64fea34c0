"""Rows of variables, and of their slots, that go on in larger ones."""

import math

import keras
import numpy as np
import tensorflow as tf

from tf_hsm.runtime import private_optimizer, row_parts


def copy(source, target, rows, start=None):
    """Copies rows of a Keras variable into another, a few at a time.

    Args:
      source: the variable that there was, `[old rows, ...]`.
      target: another one, `[R, ...]`.
      rows: `[R]`, the row of `source` that each row goes on from, or -1.
      start: the values of other rows: a function from their numbers `[n]` to
        `[n, ...]`. They stay as they are when None.
    """
    for block in row_parts.blocks(rows.size, math.prod(target.shape[1:])):
        with row_parts.beside(target):
            values = target.value[block].numpy()
        kept = rows[block] >= 0
        with row_parts.beside(source):
            values[kept] = tf.gather(source.value, rows[block][kept]).numpy()
        if start is not None:
            values[~kept] = start(block.start + (~kept).nonzero()[0])
        target.value[block].assign(values)


def permute(variables, rows, values=None, like=None):
    """Moves rows of a matrix within it.

    Args:
      variables: the Keras variables that make the matrix `[R, ...]`.
      rows: `[R]`, the row whose old values each row gets, or -1.
      values: `[n, ...]`, the values of the rows with -1, in their order.
      like: variables that make a matrix in the same parts, for slots; None:
        `variables`.
    """
    changed = np.flatnonzero(rows != np.arange(rows.size))
    if not changed.size:
        return
    like = like or variables
    found = row_parts.read_rows(variables, np.maximum(rows[changed], 0), like)
    if values is not None:
        found[rows[changed] < 0] = values
    row_parts.write_rows(variables, changed, found, like)


def slots_of(optimizer, variables):
    """Returns the slots that an optimizer has for the parts of a matrix.

    Args:
      optimizer: a Keras optimizer.
      variables: the Keras variables that make the matrix.

    Returns:
      A list with one list for each kind of slot: the slots of `variables`.
      Empty if the optimizer trains none of the variables.

    Raises:
      ValueError: the optimizer has a state of all rows together.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    wanted = {id(v) for v in variables}
    if not optimizer.built or wanted.isdisjoint(
        map(id, private_optimizer.built_variables(inner))
    ):
        return []
    pairs = list(zip(optimizer.variables, _owners(optimizer), strict=True))
    of_parts = [
        [slot for slot, owner in pairs if owner is variable]
        for variable in variables
    ]
    return list(map(list, zip(*of_parts, strict=True)))


def copy_optimizer(source, target, kept):
    """Copies the state of an optimizer: steps, rate, slots.

    And which variables it excludes from weight decay.

    Args:
      source: a built Keras optimizer.
      target: another one of the same config, built with variables that stand
        in the same order.
      kept: for each of the source's variables that go on with other rows, by
        id, these `rows` as `copy` takes them. Slots of new rows stay as they
        are.

    Raises:
      ValueError: the optimizers have other variables than each other, or a
        state of all rows together.
    """
    owners = _owners(source)
    if len(owners) != len(target.variables):
        raise ValueError(
            f"{source.name} was built with other variables than those that the "
            "model trains now; compile the model, and grow it then"
        )
    copy_decay_exclusions(source, target)
    for one, other, owner in zip(
        source.variables, target.variables, owners, strict=True
    ):
        rows = kept.get(id(owner))
        if rows is None:
            other.assign(one.value)
        else:
            copy(one, other, rows)


def copy_decay_exclusions(source, target, pairs=None):
    """Excludes from weight decay what another optimizer excludes.

    Args:
      source: a Keras optimizer.
      target: another one.
      pairs: variables of the one and the other, in pairs; None: those that they
        were built with, which stand in the same order.
    """
    one, other = (getattr(x, "inner_optimizer", x) for x in (source, target))
    if pairs is None:
        built = map(private_optimizer.built_variables, (one, other))
        pairs = zip(*built, strict=True)
    excluded = [
        theirs
        for its, theirs in pairs
        if not private_optimizer.has_decay(one, its)
    ]
    private_optimizer.exclude_from_decay(other, excluded)


def _owners(optimizer):
    """Returns the variables that an optimizer's variables are slots of.

    Raises:
      ValueError: the optimizer has a state of all rows together.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if getattr(inner, "use_ema", False):
        raise ValueError(
            f"{inner.name} has use_ema, whose averages know nothing of new "
            "rows; compile the model without it first"
        )
    owners = _slot_owners(optimizer)
    for variable, owner in zip(optimizer.variables, owners, strict=True):
        if owner is None and len(variable.shape):
            raise ValueError(
                f"{inner.name} has a state of rows together, {variable.name}; "
                "compile the model with another optimizer first"
            )
    return owners


def _slot_owners(optimizer):
    """For each variable of a built optimizer, whose slot it is; or None."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    variables = private_optimizer.built_variables(inner)
    # Another optimizer tells what it adds, for small variables of that rank.
    copy = type(optimizer).from_config(optimizer.get_config())
    copied = getattr(copy, "inner_optimizer", copy)
    add = copied.add_variable_from_reference
    stand_ins = [
        keras.Variable(
            "zeros", shape=[1] * len(v.shape), dtype=v.dtype, name=v.name
        )
        for v in variables
    ]
    for one, v in zip(stand_ins, variables, strict=True):
        # Such a variable, as the anchor of steps in place is, has no slots.
        one.overwrite_with_gradient = v.overwrite_with_gradient
    places = {id(v): place for place, v in enumerate(stand_ins)}
    owners = {}

    def add_and_note(reference_variable, *args, **kwargs):
        slot = add(reference_variable, *args, **kwargs)
        owners[id(slot)] = variables[places[id(reference_variable)]]
        return slot

    copied.add_variable_from_reference = add_and_note
    copy.build(stand_ins)
    return [owners.get(id(v)) for v in copy.variables]
