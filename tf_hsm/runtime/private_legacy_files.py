"""What Keras' legacy files have of a layer: whole models in `.h5` files.

They hold lists of variables and call no method of the layer, so there is no
public way to save more, or to check what is loaded.
"""

from keras.src.legacy.saving import legacy_h5_format


def extend(find):
    """Lets legacy files have more of a layer than its variables.

    Args:
      find: takes a layer or model to a list of objects that stand before its
        variables. Each has a `path`, which names it, and a `shape`; it is an
        array to NumPy, and its method `assign` gets the array that was saved.
    """
    variables = legacy_h5_format._legacy_weights
    # The package may be imported a second time.
    variables = getattr(variables, "_tf_hsm_variables", variables)

    def extended(layer):
        return [*find(layer), *variables(layer)]

    extended._tf_hsm_variables = variables
    legacy_h5_format._legacy_weights = extended
