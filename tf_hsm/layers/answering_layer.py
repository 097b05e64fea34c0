"""The parts of a head layer, its answers, and its contents in files."""

import contextlib
import inspect

import keras
import tensorflow as tf

from tf_hsm._head_reference import note_made
from tf_hsm.layers import quantized, tied_embedding
from tf_hsm.layers.class_arrays import unpacked
from tf_hsm.layers.head_answer import in_functional_models
from tf_hsm.layers.layer_arguments import width_of
from tf_hsm.layers.saved_rows import SavedRows
from tf_hsm.runtime import private_keras, private_saving, private_tensorflow
from tf_hsm.tree import Tree


def option(owner, name):
    """A read-only attribute of a layer: graphs that were traced hold it.

    Args:
      owner: the attribute of the layer that has it.
      name: its name there.
    """

    def read(layer):
        found = getattr(layer, owner)
        if not hasattr(found, name):
            raise AttributeError(f"a {type(layer).__name__} has no {name}")
        return getattr(found, name)

    def refuse(layer, value):
        raise AttributeError(
            f"{layer.name}: {name} is fixed when the layer is made, since "
            "traced graphs hold it; make a layer of head.get_config() with "
            f"another {name}"
        )

    return property(
        read, refuse, doc=f"Read-only: `{name}` of the constructor."
    )


class AnsweringLayer(private_saving.PartlyInSavedModels, keras.layers.Layer):
    """A Keras layer that holds a head and passes it questions.

    The layer is Keras' view of four objects and a head, and does no
    mathematics:

    - `objective` reads labels, and defines their losses;
    - `rows` says how the variables are made, `row_options` what penalizes and
      constrains them;
    - `in_place` is the optimizer of the layer's own, if it has one;
    - a head of `tf_hsm.heads`, which `build` makes, computes.

    A subclass has the method `_make_head(width)`, which makes the variables and
    returns the head.

    Args:
      trees: returns the trees whose order the rows follow: see `SavedRows`.
      objective: an `Objective`, or a `LabelSetObjective`.
      rows: the `RowSpec`.
      row_options: the `RowOptions`.
      in_place: an `InPlace`.
      cuts: arrays that say where a plan cuts the tree.
      **kwargs: as for every Keras layer.
    """

    ignore_class = option("objective", "ignore_class")
    several_labels = option("objective", "several_labels")
    node_labels = option("objective", "node_labels")
    label_smoothing = option("objective", "label_smoothing")
    smoothing_prior = option("objective", "smoothing_prior")
    class_weights = option("objective", "class_weights")
    focal_gamma = option("objective", "focal_gamma")
    z_loss = option("objective", "z_loss")
    use_bias = option("rows", "use_bias")
    kernel_initializer = option("rows", "kernel_initializer")
    bias_initializer = option("rows", "bias_initializer")
    kernel_regularizer = option("row_options", "kernel_regularizer")
    bias_regularizer = option("row_options", "bias_regularizer")
    kernel_constraint = option("row_options", "kernel_constraint")
    bias_constraint = option("row_options", "bias_constraint")
    stochastic_rounding = option("in_place", "stochastic_rounding")
    seed = option("in_place", "seed")
    # Options of the four objects that the constructor does not take.
    _unsupported = ()
    # A check of checkpoints. A SavedModel is loaded with its own functions.
    _not_in_saved_models = ("_row_order",)
    plan = None  # of a tree on several devices
    tied_to = None  # the Embedding that has the rows
    _on_replicas = False  # whether each replica has a shard
    loss_dtype = property(
        lambda self: (
            "float64" if self.variable_dtype == "float64" else "float32"
        ),
        doc="The type of losses and log-probabilities.",
    )

    def __init__(
        self, trees, objective, rows, row_options, in_place, cuts=(), **kwargs
    ):
        for name in self._unsupported:
            if name in kwargs:
                raise ValueError(
                    f"{name} is not possible for {type(self).__name__}; leave "
                    "it out"
                )
        super().__init__(**kwargs)
        self._saved = SavedRows(self, trees, cuts)
        # Keras tracks attributes for tf.train.Checkpoint.
        self._row_order = self._saved.for_checkpoints
        self.num_classes = objective.num_classes
        self.objective = objective
        self.rows = rows
        self.row_options = row_options
        self.in_place = in_place
        if in_place.optimizer is not None:
            row_options.check_none()
        # Keras saves the state of an optimizer that is an attribute.
        self.optimizer = in_place.optimizer
        self.supports_masking = True
        # XLA has no such ops; Keras would turn it on where there is a GPU.
        self.supports_jit = False
        self._head = None
        note_made(self)

    def build(self, inputs_shape=None, labels_shape=None):
        """Makes the variables for inputs `[..., width]`."""
        del labels_shape
        quantized.check_policy(self)
        width = self._width_of(inputs_shape)
        self._row_order.check()
        self.hidden_width = width
        with private_tensorflow.bfloat16_copies():
            self._head = self._make_head(width)
            self.in_place.make_anchor(self)
            self.in_place.build(self)

    def _width_of(self, inputs_shape):
        """Returns the width of the rows for inputs of a shape."""
        return width_of(inputs_shape)

    @in_functional_models
    def log_probs(self, inputs, *, nodes=False):
        """Returns log-probabilities `[..., num_classes]` of all classes.

        In nats; see `tf_hsm.hierarchical_softmax_log_probs`.
        """
        found = self._ask("log_probs", inputs, nodes=nodes)
        return self.in_place.without_gradient(
            self, found, "log_probs", "a step follows the losses of labels"
        )

    @in_functional_models
    def log_prob(
        self, classes, inputs, *, nodes=False, allowed=None, renormalize=False
    ):
        """Returns log-probabilities of given classes `[..., C]`, in nats.

        See `tf_hsm.hierarchical_softmax_log_prob`.
        """
        return self._ask(
            "log_prob",
            inputs,
            classes=classes,
            nodes=nodes,
            allowed=allowed,
            renormalize=renormalize,
        )

    @in_functional_models
    def top_k(
        self,
        inputs,
        k,
        *,
        threshold=None,
        beam_width=None,
        return_pruned=False,
        bounds=None,
        allowed=None,
        renormalize=False,
        rescore=None,
    ):
        """Returns the k best classes, `(log_probs, classes)` of `[..., k]`.

        See `tf_hsm.hierarchical_softmax_top_k`.
        """
        return self._ask(
            "top_k",
            inputs,
            k=k,
            threshold=threshold,
            beam_width=beam_width,
            return_pruned=return_pruned,
            bounds=bounds,
            allowed=allowed,
            renormalize=renormalize,
            rescore=rescore,
        )

    @in_functional_models
    def sample(
        self,
        inputs,
        num_samples,
        *,
        seed=None,
        temperature=1.0,
        top_k=None,
        top_p=None,
        allowed=None,
    ):
        """Draws classes `[..., num_samples]` by their probabilities.

        See `tf_hsm.hierarchical_softmax_sample`.
        """
        return self._ask(
            "sample",
            inputs,
            num_samples=num_samples,
            seed=seed,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            allowed=allowed,
        )

    def _check_k(self, k):
        """Raises a ValueError unless a number of classes is in [1, N].

        A functional model asks for so many before its op runs.
        """
        if not tf.is_tensor(k) and not 1 <= k <= self.num_classes:
            raise ValueError(
                f"{self.name}: k = {k} is outside [1, {self.num_classes}]; the "
                "upper end is the number of classes"
            )

    @in_functional_models
    def predict_class(self, inputs):
        """Returns the most probable class of each input, `[...]` int64."""
        return self._ask("best_class", inputs)

    @private_tensorflow.allow_infinities
    def _ask(self, method, inputs, **options):
        """Asks the head, which may not know every option.

        Raises:
          ValueError: the layer is not built, or its head cannot answer that.
        """
        self._check_built()
        function = getattr(self._head, method, None)
        given = {
            name: value
            for name, value in options.items()
            if value is not None and value is not False
        }
        if function is None:
            raise ValueError(self._refusal(method))
        known = inspect.signature(function).parameters.values()
        if not any(p.kind is p.VAR_KEYWORD for p in known):
            unknown = given.keys() - {p.name for p in known}
            if unknown:
                raise ValueError(self._refusal(min(unknown)))
        return function(inputs=self._hidden(inputs), **given)

    def _hidden(self, inputs):
        """Returns the head's inputs `[..., width]` for what a user gives."""
        return inputs

    def _refusal(self, what):
        text = f"{self.name}: {what} is not possible for {type(self).__name__}"
        if self.plan is not None:
            text += " with a plan; ask within `with head.on_one_device():`"
        return text

    @contextlib.contextmanager
    def on_one_device(self):
        """Within, a head on several devices answers from the default device.

        A head with a plan answers from a copy of its rows.

        Raises:
          ValueError: the layer is not built.
        """
        self._check_built()
        own, self._head = self._head, self._head.on_one_device()
        try:
            yield
        finally:
            self._head = own

    def _check_built(self):
        if self._head is None:
            raise ValueError(
                f"{self.name} has no weights yet: call it, or a model with it, "
                "on inputs first"
            )
        if self.tied_to is not None:
            tied_embedding.check_floats(self.tied_to, self.name)

    def quantize(self, mode=None, type_check=True, config=None):
        """Replaces the weights by codes of 8 or 4 bits, with scales.

        The layer can then no longer train: see docs/compression.md.
        `model.quantize(mode)` of Keras quantizes all layers that can; with
        `filters=lambda layer: layer is head` this one alone. Prefer it: a
        model that was called before holds the old weights in its graphs, which
        `model.quantize` makes anew. Compile the model again to free the old
        weights, which its optimizer holds.

        Args:
          mode: "int8", a scale for each row; or "int4", a scale for each 64
            numbers of a row.
          type_check: of Keras, without a meaning here.
          config: a configuration of Keras, of which only the mode counts.

        Raises:
          NotImplementedError: the layer has tied_to, is a `SampledSoftmax`, or
            has variables that are not float32 or not on CPUs. Keras expects
            this type: its `model.quantize` warns and goes on.
          ValueError: the layer is not built, or is quantized already; a weight
            is not finite; or other workers have some of the rows.
        """
        del type_check, config
        self._check_built()
        quantized.quantize(self, mode)

    def _no_quantized_form(self):
        """Returns why the layer has no weights in 8 or 4 bits, or None."""
        return self.tied_to and "tied_to shares the rows of an Embedding"

    def _device_names(self):
        """Returns the names of the devices of shards or tails, if any."""
        return () if self.plan is None else self.plan.devices

    def quantized_call(self, *args, **kwargs):
        """Calls the layer; see Keras."""
        return self.call(*args, **kwargs)

    def row_variables(self):
        """Returns the weights and biases of all rows, a list."""
        self._check_built()
        return self._head.variables()

    def _tree_heads(self):
        """Returns the heads of one tree each that have the rows, a list."""
        self._check_built()
        return self._head.tree_heads()

    def save_own_variables(self, store):
        """Writes the variables, and what their rows stand for; see Keras."""
        self._complete()
        self._saved.write(self._saved_variables(), store)

    def load_own_variables(self, store):
        """Reads what `save_own_variables` wrote; see Keras.

        A quantized layer drops the rows that `QuantizedRows.keep` stored,
        because they may not be the rows of the new codes.

        Raises:
          ValueError: the store has variables of another tree or other shapes.
        """
        self._complete()
        quantized.drop_originals(self._head)
        self._saved.read(self._saved_variables(), store)

    def _complete(self):
        """Makes the state that Keras' way to build a model has left out."""
        if self.built:
            self.in_place.build(self)

    def _saved_variables(self):
        """Returns all variables in the order of files, which is Keras' order.

        A subclass may have added variables. The anchor of steps has no value.
        """
        variables = private_keras.own_variables(self)
        return [v for v in variables if v is not self.in_place.anchor]

    def _add_to_checkpoints(self, variables):
        """Lets a `tf.train.Checkpoint` have variables that are in lists.

        It sees the attributes of a layer, but no list of Keras'.
        """
        for variable in variables:
            if variable is not None:
                setattr(self, f"_{variable.name}", variable)

    def get_config(self):
        """Returns the arguments of the constructor, as JSON can hold them."""
        options = {
            **self.objective.get_config(),
            **self.rows.get_config(),
            **self.row_options.get_config(),
            **self.in_place.get_config(self),
        }
        for name in self._unsupported:
            options.pop(name, None)
        return {**super().get_config(), **options, **self._own_config()}

    def get_build_config(self):
        """Returns the shapes for `build`, as Keras does, and a hint.

        Where tf_hsm is not imported, Keras' error ends with this config.
        """
        shapes = super().get_build_config()
        return shapes and {**shapes, "to_load": "import tf_hsm first"}

    def _own_config(self):
        """Returns the arguments that none of the four objects has."""
        return {}

    @classmethod
    def from_config(cls, config):
        """Makes the layer that `get_config` described."""
        return cls(**cls._arguments_of(unpacked(config)))

    @classmethod
    def _arguments_of(cls, config):
        """Returns the arguments of the constructor for a config."""
        if "tree" in config:
            config = {**config, "tree": Tree.from_config(config["tree"])}
        return config
