"""The public names of the package, and what they take."""

import importlib
import inspect
import pkgutil
import sys
import textwrap

import keras
import pytest

import tf_hsm

MODULES = (
    "tf_hsm",
    "tf_hsm.baselines",
    "tf_hsm.converters",
    "tf_hsm.datasets",
    "tf_hsm.decoding",
    "tf_hsm.distribute",
    "tf_hsm.estimation",
    "tf_hsm.layers",
    "tf_hsm.losses",
    "tf_hsm.metrics",
    "tf_hsm.optimizers",
    "tf_hsm.serving",
)
# Those whose other public methods are listed too.
CLASSES = (
    tf_hsm.CostModel,
    tf_hsm.ExpectedCost,
    tf_hsm.LabelCounts,
    tf_hsm.decoding.Sampler,
    tf_hsm.distribute.Cluster,
    tf_hsm.distribute.Plan,
    tf_hsm.estimation.Comparison,
    tf_hsm.estimation.Estimate,
    tf_hsm.estimation.Machine,
    tf_hsm.Forest,
    tf_hsm.Tree,
)


def public_names(module):
    """What `__all__` lists; without one, what is defined in the module."""
    return getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__
        and not name.startswith("_")
    ]


def signature(function):
    """The arguments and their defaults, without types."""
    arguments = inspect.signature(function).parameters.values()
    bare = [a.replace(annotation=inspect.Parameter.empty) for a in arguments]
    return str(inspect.Signature(bare))


def lines_of(name, value):
    """A line for a public name; for a class of CLASSES, one per method too."""
    is_error = isinstance(value, type) and issubclass(value, Exception)
    if not callable(value) or is_error:
        return [name]
    lines = [name + signature(value)]
    if value in CLASSES:
        for member in dir(value):
            if not member.startswith("_"):
                lines += lines_of(f"{name}.{member}", getattr(value, member))
    return lines


def public_api():
    """One line per public name, in order."""
    lines = []
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in public_names(module):
            lines += lines_of(f"{module_name}.{name}", getattr(module, name))
    return "\n".join(
        textwrap.fill(
            line, 80, subsequent_indent="    ", break_long_words=False
        )
        for line in sorted(lines)
    )


@pytest.mark.skipif(
    keras.__version__ < "3.15", reason="optimizers inherit other defaults"
)
def test_public_api():
    """What this test finds, users find too: CHANGELOG.md tells them."""
    assert public_api() == API.strip()


def test_no_name_hides_a_module():
    """What `import tf_hsm.x.y` imports is the attribute y of `tf_hsm.x`."""
    found = [
        info.name
        for info in pkgutil.walk_packages(tf_hsm.__path__, "tf_hsm.")
        if info.name not in ("tf_hsm.__main__", "tf_hsm._tf_hsm_ops")
    ]
    assert "tf_hsm.distribute.cut_plan" in found
    for name in found:
        module = importlib.import_module(name)
        package, _, last = name.rpartition(".")
        assert getattr(sys.modules[package], last) is module, name


API = """
tf_hsm.CostModel(*, call=0.4, floor=0.0, weight=1.3e-06, logit=1.4e-06,
    product=3.1e-08)
tf_hsm.CostModel.call
tf_hsm.CostModel.floor
tf_hsm.CostModel.logit
tf_hsm.CostModel.milliseconds(self, rows, examples, *, width)
tf_hsm.CostModel.product
tf_hsm.CostModel.products(self, rows, examples, *, width)
tf_hsm.CostModel.weight
tf_hsm.CostModel.weights(self, rows, *, width)
tf_hsm.ExpectedCost(rows_per_example, touched_rows, flops, bytes, milliseconds,
    batch, width)
tf_hsm.Forest(group_offsets, group_parents, class_rows, *, pinned=False)
tf_hsm.Forest.class_ranks
tf_hsm.Forest.classes_below(self, row)
tf_hsm.Forest.depth
tf_hsm.Forest.num_classes
tf_hsm.Forest.num_groups
tf_hsm.Forest.num_roots
tf_hsm.Forest.num_rows
tf_hsm.Forest.num_weight_rows
tf_hsm.Forest.pinned
tf_hsm.Forest.root_groups
tf_hsm.Forest.row_children
tf_hsm.Forest.row_classes
tf_hsm.Forest.row_groups
tf_hsm.Forest.row_ranks
tf_hsm.Forest.row_spans
tf_hsm.LabelCounts(tree, rows, *, examples)
tf_hsm.LabelCounts.expected(tree, counts, *, examples)
tf_hsm.LabelCounts.log_odds(self)
tf_hsm.LabelCounts.of(tree, labels)
tf_hsm.Tree(group_offsets, group_parents, class_rows, *, names=None,
    pinned=False)
tf_hsm.Tree.adaptive(counts, *, num_clusters='auto', batch=1024, width=512,
    tail='flat', min_head=None, cost_model=None, cutoffs=None)
tf_hsm.Tree.balanced(num_classes, branching, *, pinned=False)
tf_hsm.Tree.class_name(self, c)
tf_hsm.Tree.class_of(self, names)
tf_hsm.Tree.class_ranks
tf_hsm.Tree.classes_below(self, row)
tf_hsm.Tree.depth
tf_hsm.Tree.expand(self)
tf_hsm.Tree.expand_rows(self, weights)
tf_hsm.Tree.expected_cost(self, counts=None, *, batch=None, width=None,
    cost_model=None)
tf_hsm.Tree.from_config(config)
tf_hsm.Tree.from_counts(counts, *, names=None, branching=256)
tf_hsm.Tree.from_embeddings(vectors, *, branching=None, seed=0, metric='cosine',
    max_iterations=50, verbose=True, pinned=False)
tf_hsm.Tree.from_nested(nested_lists)
tf_hsm.Tree.from_parents(parents, *, classes=None, names=None)
tf_hsm.Tree.from_paths(paths)
tf_hsm.Tree.get_config(self)
tf_hsm.Tree.group_depths
tf_hsm.Tree.grow(self, classes, *, near=None, branch=False, max_fanout=None)
tf_hsm.Tree.huffman(counts, *, branching=2, pinned=False)
tf_hsm.Tree.load(path)
tf_hsm.Tree.log_prior(self, counts)
tf_hsm.Tree.map_rows(self, before, *, from_top=False)
tf_hsm.Tree.names
tf_hsm.Tree.num_classes
tf_hsm.Tree.num_groups
tf_hsm.Tree.num_roots
tf_hsm.Tree.num_rows
tf_hsm.Tree.num_weight_rows
tf_hsm.Tree.path(self, c)
tf_hsm.Tree.path_names(self, c)
tf_hsm.Tree.pin(self)
tf_hsm.Tree.pin_rows(self, weights)
tf_hsm.Tree.pinned
tf_hsm.Tree.plot(self, counts=None, *, path=None)
tf_hsm.Tree.rebalance(self, counts, *, branching=None)
tf_hsm.Tree.root_groups
tf_hsm.Tree.row_children
tf_hsm.Tree.row_classes
tf_hsm.Tree.row_groups
tf_hsm.Tree.row_of(self, names)
tf_hsm.Tree.row_ranks
tf_hsm.Tree.row_shares(self, counts=None)
tf_hsm.Tree.row_spans
tf_hsm.Tree.save(self, path)
tf_hsm.Tree.summary(self)
tf_hsm.Tree.two_level(num_classes)
tf_hsm.Tree.with_class_names(self, names)
tf_hsm.baselines
tf_hsm.baselines.embedding_lookup_loss(weights, biases, labels, inputs, tree, *,
    ignore_class=None)
tf_hsm.baselines.full_softmax_loss(weights, biases, labels, inputs, tree=None,
    *, ignore_class=None)
tf_hsm.baselines.gather_loss(weights, biases, labels, inputs, tree, *,
    ignore_class=None)
tf_hsm.baselines.map_fn_loss(weights, biases, labels, inputs, tree, *,
    ignore_class=None)
tf_hsm.baselines.peak_bytes(name, tree, *, batch, width, itemsize,
    gradient=True)
tf_hsm.converters
tf_hsm.converters.ConvertedModel(tree, weights, names, inputs, input_names,
    biases=None)
tf_hsm.converters.FastTextModel(tree, weights, names, inputs, input_names,
    biases=None, line_vector=None)
tf_hsm.converters.from_fasttext(path, *, pinned=True)
tf_hsm.converters.from_gensim(model, *, pinned=True)
tf_hsm.cpu_isa()
tf_hsm.datasets
tf_hsm.datasets.ExtremeData(num_features, num_labels, label_starts, label_ids,
    feature_starts, feature_ids, feature_values)
tf_hsm.datasets.load_extreme(path)
tf_hsm.decoding
tf_hsm.decoding.Sampler(*, temperature=1.0, top_k=None, top_p=None, seed=None)
tf_hsm.decoding.Sampler.from_config(config)
tf_hsm.decoding.Sampler.get_config(self)
tf_hsm.decoding.Sampler.next_classes(self, head, hidden, position)
tf_hsm.decoding.Sequences(classes, log_probs, lengths)
tf_hsm.decoding.beam_search(step, state, head, *, beam_width, length, start=0,
    end=None, min_length=1, length_penalty=0.0, exclude=())
tf_hsm.distribute
tf_hsm.distribute.Cluster(servers, *, coordinator=None)
tf_hsm.distribute.Cluster.coordinator
tf_hsm.distribute.Cluster.devices(self, job='ps')
tf_hsm.distribute.Cluster.explain(self, error)
tf_hsm.distribute.Cluster.explained(self)
tf_hsm.distribute.Cluster.join(self)
tf_hsm.distribute.Cluster.lost(self)
tf_hsm.distribute.LostServerError
tf_hsm.distribute.Plan(tree, devices, *, unit_rows, unit_loads,
    first_units=None, step=None)
tf_hsm.distribute.Plan.cost
tf_hsm.distribute.Plan.from_config(config, tree)
tf_hsm.distribute.Plan.get_config(self)
tf_hsm.distribute.Plan.on(self, devices)
tf_hsm.distribute.Plan.plot(self, path=None)
tf_hsm.distribute.Plan.shards
tf_hsm.distribute.Plan.simulate(self, batches=None, *, counts=None, batch=None,
    steps=None, seed=0)
tf_hsm.distribute.Plan.weight_rows_of(self, shard=None)
tf_hsm.distribute.PlanCost(shards, top, largest_work, largest_rows,
    largest_by_chance, wire_bytes, wire_bytes_per_example, parameter_bytes,
    wire_milliseconds, remarks, step)
tf_hsm.distribute.Shard(device, first_unit, num_units, first_place, num_classes,
    first_row, num_rows, first_group, num_groups, work)
tf_hsm.distribute.ShardCost(device, subtrees, classes, rows, rows_share, work,
    work_share, examples_share, bytes, touched_rows, wire_bytes, milliseconds)
tf_hsm.distribute.Simulation(devices, batches, examples, work, touched_rows,
    top_work, wire_bytes, milliseconds, top_milliseconds, step)
tf_hsm.distribute.Step(*, batch=None, width=None, slots=1, dtype='float32',
    network=1250000000.0, cost_model=<factory>)
tf_hsm.distribute.checkpoint(head, *, optimizer=None)
tf_hsm.distribute.connect(cluster=None, *, coordinator=False, timeout=60.0)
tf_hsm.distribute.copy_weights(source, target)
tf_hsm.distribute.plan(tree, devices, *, counts=None, batch=None, width=None,
    top=256, slots=1, dtype='float32', network=1250000000.0, bandwidth=None,
    cost_model=None)
tf_hsm.estimate(body=None, head=None, *, batch, length=None, width=None,
    num_classes=None, counts=None, vocabulary=None, dtype=None,
    optimizer='adam', head_optimizer=None, corpus_tokens=None, memory=None,
    machine=None, replicas=1, shards=None, network=1250000000.0,
    labels_per_example=1)
tf_hsm.estimation
tf_hsm.estimation.Comparison(estimates)
tf_hsm.estimation.Comparison.plot(self, path=None)
tf_hsm.estimation.Comparison.to_dict(self)
tf_hsm.estimation.Estimate(name, parts, seconds, setting, labels, machine,
    memory=None, corpus_tokens=None, replicas=None)
tf_hsm.estimation.Estimate.corpus_tokens
tf_hsm.estimation.Estimate.fits
tf_hsm.estimation.Estimate.flops
tf_hsm.estimation.Estimate.gradient_bytes
tf_hsm.estimation.Estimate.hours_per_epoch
tf_hsm.estimation.Estimate.memory
tf_hsm.estimation.Estimate.milliseconds
tf_hsm.estimation.Estimate.parameter_bytes
tf_hsm.estimation.Estimate.parameters
tf_hsm.estimation.Estimate.peak_bytes
tf_hsm.estimation.Estimate.plot(self, path=None)
tf_hsm.estimation.Estimate.replicas
tf_hsm.estimation.Estimate.saved_bytes
tf_hsm.estimation.Estimate.slot_bytes
tf_hsm.estimation.Estimate.spare_bytes
tf_hsm.estimation.Estimate.temporary_bytes
tf_hsm.estimation.Estimate.to_dict(self)
tf_hsm.estimation.Estimate.tokens_per_second
tf_hsm.estimation.Estimate.uncounted
tf_hsm.estimation.Machine(name, *, flops, read, read_write, memory=None,
    op=1e-05, fresh=None, transpose=0.0, softmax=0.0, half=8.0, cost_model=None)
tf_hsm.estimation.Machine.cost_model
tf_hsm.estimation.Machine.fresh
tf_hsm.estimation.Machine.from_dict(values)
tf_hsm.estimation.Machine.half
tf_hsm.estimation.Machine.memory
tf_hsm.estimation.Machine.op
tf_hsm.estimation.Machine.product(self, product, dtype)
tf_hsm.estimation.Machine.rate(self, dtype)
tf_hsm.estimation.Machine.softmax
tf_hsm.estimation.Machine.to_dict(self)
tf_hsm.estimation.Machine.transpose
tf_hsm.estimation.calibrate(*, refresh=False, verbose=False)
tf_hsm.estimation.calibrate_cost_model(*, width=512, repetitions=5)
tf_hsm.estimation.estimate(body=None, head=None, *, batch, length=None,
    width=None, num_classes=None, counts=None, vocabulary=None, dtype=None,
    optimizer='adam', head_optimizer=None, corpus_tokens=None, memory=None,
    machine=None, replicas=1, shards=None, network=1250000000.0,
    labels_per_example=1)
tf_hsm.estimation.head(what, num_classes=None, *, counts=None, optimizer=None,
    shards=None, network=1250000000.0, **options)
tf_hsm.estimation.largest(body=None, head=None, *, memory, what='batch',
    **arguments)
tf_hsm.estimation.machines
tf_hsm.estimation.recurrent(cell, units, *, width=None, vocabulary=None,
    length=None)
tf_hsm.estimation.transformer(*, layers=6, d_model=512, heads=8, d_ff=None,
    length=None, vocabulary=None, kv_heads=None, causal=True, dropout=0.0,
    activation='relu')
tf_hsm.estimation.without_values()
tf_hsm.grow(model, tree, *, counts=None, embeddings=(), head=None)
tf_hsm.hierarchical_softmax_embedding_train_step(weights, biases, labels,
    vectors, indices, tree, optimizer, loss_weights=None, ignore_class=None,
    stochastic_rounding=None, seed=0, label_smoothing=0.0, combiner='mean',
    index_weights=None, nodes=False, smoothing_prior=None)
tf_hsm.hierarchical_softmax_log_prob(weights, biases, classes, inputs, tree,
    root_log_probs=None, nodes=False, allowed=None, renormalize=False)
tf_hsm.hierarchical_softmax_log_probs(weights, biases, inputs, tree,
    nodes=False, root_log_probs=None)
tf_hsm.hierarchical_softmax_loss(weights, biases, labels, inputs, tree,
    ignore_class=None, label_smoothing=0.0, nodes=False, smoothing_prior=None)
tf_hsm.hierarchical_softmax_sample(weights, biases, inputs, tree, num_samples,
    seed=None, temperature=1.0, top_k=None, top_p=None, root_log_probs=None,
    allowed=None)
tf_hsm.hierarchical_softmax_top_k(weights, biases, inputs, tree, k,
    beam_width=None, return_pruned=False, root_log_probs=None, bounds=None,
    allowed=None, renormalize=False)
tf_hsm.hierarchical_softmax_train_step(weights, biases, labels, inputs, tree,
    optimizer, loss_weights=None, ignore_class=None, stochastic_rounding=None,
    seed=0, label_smoothing=0.0, nodes=False, smoothing_prior=None)
tf_hsm.label_tree_log_prob(weights, biases, classes, inputs, tree)
tf_hsm.label_tree_loss(weights, biases, labels, inputs, tree)
tf_hsm.label_tree_top_k(weights, biases, inputs, tree, k, threshold=None,
    allowed=None)
tf_hsm.label_tree_train_step(weights, biases, labels, inputs, tree, optimizer,
    loss_weights=None, stochastic_rounding=None, seed=0)
tf_hsm.layers
tf_hsm.layers.AdaptiveSoftmax(num_classes, cutoffs='auto', div_value=4.0,
    counts=None, tail='flat', use_bias=True, ignore_class=None, width=None,
    batch=1024, cost_model=None, kernel_initializer=None,
    projection_initializer='glorot_uniform', bias_initializer='zeros',
    optimizer=None, stochastic_rounding=None, seed=0, **kwargs)
tf_hsm.layers.EmbeddingSoftmax(tree, num_embeddings, width, optimizer=None,
    combiner='mean', padding_id=None, embeddings_initializer=None,
    kernel_initializer='zeros', **kwargs)
tf_hsm.layers.HierarchicalSoftmax(tree, use_bias=True, ignore_class=None,
    optimizer=None, stochastic_rounding=None, seed=0,
    kernel_initializer='glorot_uniform', bias_initializer='zeros', counts=None,
    devices=None, plan=None, node_labels=False, label_smoothing=0.0,
    smoothing_prior=None, **kwargs)
tf_hsm.layers.LabelTree(tree, use_bias=True, ignore_class=None, optimizer=None,
    stochastic_rounding=None, seed=0, kernel_initializer='glorot_uniform',
    bias_initializer='zeros', counts=None, **kwargs)
tf_hsm.layers.SampledSoftmax(num_classes, num_sampled, sampler='log_uniform',
    counts=None, power=0.75, seed=0, use_bias=True, ignore_class=None,
    kernel_initializer='glorot_uniform', bias_initializer='zeros', **kwargs)
tf_hsm.losses
tf_hsm.losses.HeadLoss(reduction='sum_over_batch_size',
    name='hierarchical_softmax_loss', dtype=None)
tf_hsm.losses.focal_loss(losses, gamma=2.0)
tf_hsm.losses.mean_loss(losses, mask, sample_weight, model)
tf_hsm.metrics
tf_hsm.metrics.Perplexity(head=None, name='perplexity', dtype=None)
tf_hsm.metrics.PrecisionAtK(k=1, name=None, dtype=None)
tf_hsm.metrics.TopKAccuracy(k=5, name=None, dtype=None)
tf_hsm.optimizers
tf_hsm.optimizers.Adagrad(learning_rate=0.001, initial_accumulator_value=0.1,
    epsilon=1e-07, weight_decay=None, clipnorm=None, clipvalue=None,
    global_clipnorm=None, use_ema=False, ema_momentum=0.99,
    ema_overwrite_frequency=None, loss_scale_factor=None,
    gradient_accumulation_steps=None, name=None, **kwargs)
tf_hsm.optimizers.LazyAdam(learning_rate=0.001, beta_1=0.9, beta_2=0.999,
    epsilon=1e-07, amsgrad=False, weight_decay=None, clipnorm=None,
    clipvalue=None, global_clipnorm=None, use_ema=False, ema_momentum=0.99,
    ema_overwrite_frequency=None, loss_scale_factor=None,
    gradient_accumulation_steps=None, name=None, **kwargs)
tf_hsm.optimizers.LossScaleOptimizer(inner_optimizer, initial_scale=32768.0,
    dynamic_growth_steps=2000, name=None, **kwargs)
tf_hsm.optimizers.RowwiseAdagrad(learning_rate=0.001,
    initial_accumulator_value=0.1, epsilon=1e-07, weight_decay=None,
    clipnorm=None, clipvalue=None, global_clipnorm=None, use_ema=False,
    ema_momentum=0.99, ema_overwrite_frequency=None, loss_scale_factor=None,
    gradient_accumulation_steps=None, name=None, **kwargs)
tf_hsm.optimizers.SGD(learning_rate=0.01, momentum=0.0, nesterov=False,
    weight_decay=None, clipnorm=None, clipvalue=None, global_clipnorm=None,
    use_ema=False, ema_momentum=0.99, ema_overwrite_frequency=None,
    loss_scale_factor=None, gradient_accumulation_steps=None, name=None,
    **kwargs)
tf_hsm.serving
tf_hsm.serving.export(model, path, *, head=None, k=10)
tf_hsm.serving.op_library_path()
"""
