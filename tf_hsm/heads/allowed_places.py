"""The classes that an answer may name, for a head made of parts."""

import tensorflow as tf

from tf_hsm.ops.allowed import AllowedClasses


class AllowedPlaces:
    """Allowed classes by their places, of which each part has an interval.

    Attributes:
      classes: the `AllowedClasses`.

    Args:
      classes: see above.
      places: `[1 or B, M]` int64, the place of each class of `classes.lists`;
        -1 where the list has none.
    """

    def __init__(self, classes, places):
        self.classes = classes
        self._places = places
        self._is_one_list = places.shape[0] == 1

    def for_each(self, num_inputs):
        """Returns the same places with a list for each of B inputs."""
        shape = [num_inputs, tf.shape(self._places)[1]]
        places = tf.broadcast_to(self._places, shape)
        places = tf.ensure_shape(places, [None, self._places.shape[1]])
        found = AllowedPlaces(self.classes, places)
        # Other replicas may have more than one input.
        found._is_one_list = False
        return found

    def contain(self, places):
        """Returns which of places `[n]` are allowed, `[1 or B, n]` bool."""
        none = tf.constant(tf.int64.max, tf.int64)
        lists = tf.sort(tf.where(self._places < 0, none, self._places), -1)
        count = tf.shape(lists)[0]
        return AllowedClasses(lists, tf.int64.max).contain(
            tf.broadcast_to(places, [count, tf.size(places)])
        )

    def any_in(self, places):
        """Returns whether a slice of the places has one, `[1 or B]` bool."""
        return tf.reduce_any(self._within(places) >= 0, -1)

    def of_part(self, places, route):
        """Returns what a part takes as `allowed`.

        Args:
          places: a slice, the places of its classes.
          route: the `Route` of the examples to the part.
        """
        within = self._within(places)
        return within[0] if self._is_one_list else route.take(within)

    def _within(self, places):
        """The places in a slice, from 0 on; -1 for others."""
        is_in = (self._places >= places.start) & (self._places < places.stop)
        return tf.where(is_in, self._places - places.start, -1)
