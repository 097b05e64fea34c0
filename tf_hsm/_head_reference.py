"""References from losses, metrics and answers to their head."""

import threading
import weakref

import tensorflow as tf

_thread = threading.local()


def note_made(head):
    """Notes that a head was made, for the references that a file names."""
    if not hasattr(_thread, "made"):
        _thread.made = weakref.WeakValueDictionary()
    _thread.made[head.name] = head


class HeadReference:
    """A head that a loss, a metric or an answer belongs to.

    The reference is weak: Keras walks through the properties of a layer when it
    saves a model, and `head.loss` must not lead back to the head. A file has
    the name of the head. Keras makes the layers of a file first and then the
    losses and metrics, so the reference finds the last head of this name.

    Args:
      head: a layer of `tf_hsm.layers`.

    Raises:
      TypeError: `head` is something else.
    """

    def __init__(self, head):
        if not hasattr(head, "label_losses"):
            raise TypeError(
                "head must be a layer of tf_hsm.layers, but is "
                f"{type(head).__name__}"
            )
        self._is_of_file = False
        self.bind(head)

    @classmethod
    def of_file(cls, name):
        """Returns a reference to the last head of a name.

        Args:
          name: a name; or None, from a file of an earlier version, which has no
            names. `check_belongs` then finds the head.
        """
        reference = cls.__new__(cls)
        reference._is_of_file = True
        reference.name, reference._head = name, None
        head = getattr(_thread, "made", {}).get(name)
        if head is not None:
            reference.bind(head)
        return reference

    def bind(self, head):
        """Makes this a reference to a head."""
        self.name = head.name
        self._head = weakref.ref(head)

    def get(self):
        """Returns the head.

        Raises:
          ValueError: the head is not there, or has been deleted.
        """
        head = None if self._head is None else self._head()
        if head is None:
            raise ValueError(
                f"the head {self.name!r} of this loss, metric or answer is not "
                "there: make it of a head that the model has, such as head.loss"
            )
        return head

    def check_belongs(self, head, heads, model, owner):
        """Checks that this refers to a head of a compiled model.

        A reference from a file is bound to the model's head of its name, or to
        its only head: the head of a subclassed model may get another name.

        Args:
          head: the head of the model that is called.
          heads: all heads of the model.
          model: the compiled model.
          owner: the loss or metric that has the reference.

        Raises:
          ValueError: the reference is to a head of another model; or it is from
            a file, and several heads of the model have its name.
        """
        if self._is_of_file:
            named = [one for one in heads if one.name == self.name]
            if len(named) > 1:
                raise ValueError(
                    f"{model.name} has {len(named)} heads of the name "
                    f"{self.name!r}, which a file does not tell apart; compile "
                    "the model again, with the losses of its heads"
                )
            if self.name is None:
                self.bind(head)
            elif named or len(heads) == 1:
                self.bind((named or heads)[0])
        known = None if self._head is None else self._head()
        if any(known is one for one in heads):
            self._is_of_file = False
            return
        raise ValueError(
            f"{model.name} is compiled with {owner.name} of the head "
            f"{self.name!r} of another model; compile it with {head.name}.loss "
            "and metrics of its own head, such as "
            f"tf_hsm.metrics.Perplexity({head.name})"
        )


def reference_to(head):
    """Returns a `HeadReference`; one that is given stays as it is."""
    return head if isinstance(head, HeadReference) else HeadReference(head)


def check_hidden(head, hidden, name="y_pred"):
    """Returns hidden vectors as a tensor.

    Raises:
      ValueError: `hidden`, which `name` says, are not `[..., width]`.
    """
    hidden = tf.convert_to_tensor(hidden)
    width = head.hidden_width
    rank = hidden.shape.rank
    if rank is not None and (rank < 1 or (hidden.shape[-1] or width) != width):
        raise ValueError(
            f"{name}, of shape {tuple(hidden.shape)}, must be the hidden "
            f"vectors [..., {width}] that {head.name} returns"
        )
    return hidden
