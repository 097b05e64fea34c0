"""What an error in the first step of a model takes from it."""

import contextlib

from tf_hsm.runtime import private_keras


@contextlib.contextmanager
def lost_values_told(find_variables):
    """Says in an error if it leaves variables of Keras without values.

    Those of a model that `fit` builds are made in the graph of its first step,
    and get their values when that runs.

    Args:
      find_variables: returns those that there are, a list.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        if private_keras.lack_values(find_variables()):
            error.args = (
                f"{error}\nThe model must be made anew too: its variables were "
                "made in this first step, and Keras leaves them without values "
                "where that fails",
            )
        raise
