# %% [markdown]
# # Replace Dense(50,000) by a tree
#
# A language model ends in a `Dense` layer with one row for each word. Here the
# same model trains twice on the same text: with
# `Dense` and `SparseCategoricalCrossentropy`, and with a tree of
# `tf_hsm`. The notebook draws both loss curves, over steps and over seconds,
# then finds the best words, saves the model and loads it again.
#
# The text is synthetic, so that the notebook needs no download, and so that we
# know the lowest possible loss.
#
# To run it, install tf_hsm (its README says how), `pip install matplotlib
# jupyterlab`, and call `jupyter lab` in this folder. The script beside it needs
# no Jupyter.

# %%
import tempfile
import time

import keras
import matplotlib.pyplot as plt
import numpy as np

import tf_hsm

# %% tags=["parameters"]
NUM_WORDS = 50_000
NUM_TOPICS = 250
NUM_EXAMPLES = 500_000
HELD_OUT = 2_000
BATCH = 256
STEPS = 40  # between two measurements
DENSE_ROUNDS = 6
TREE_ROUNDS = 40
LEARNING_RATE = 4e-3

# %% [markdown]
# ## A text with a known lowest loss
#
# Each word has a topic and a frequency: the n-th most frequent word has a
# frequency proportional to 1/n (Zipf's law). The two words before a word
# decide its topic: with probability 0.6 the topic is one of six that often
# follow the topic of the last word, with 0.3 one of six that often follow the
# topic of the word before, and otherwise any topic. The text draws the word
# from the words of that topic by their frequencies. Word ids are in random
# order.

# %%
rng = np.random.default_rng(0)
frequency = 1 / np.arange(1, NUM_WORDS + 1)
frequency = rng.permutation(frequency / frequency.sum())
topic = rng.permutation(np.arange(NUM_WORDS) % NUM_TOPICS)  # of each word
topic_frequency = np.bincount(topic, frequency)
within = frequency / topic_frequency[topic]  # p(word | its topic)

# follows[a, b] is the probability that topic b comes after topic a.
shares = 0.5 ** np.arange(6) / (0.5 ** np.arange(6)).sum()
following = rng.choice(NUM_TOPICS, (NUM_TOPICS, 6), p=topic_frequency)
follows = np.zeros((NUM_TOPICS, NUM_TOPICS))
np.add.at(follows, (np.arange(NUM_TOPICS)[:, None], following), shares)


def topic_probabilities(before, last):
    """p(topic | the two words before), `[n, NUM_TOPICS]`."""
    p = 0.6 * follows[topic[last]] + 0.3 * follows[topic[before]]
    return p + 0.1 * topic_frequency


by_topic = np.argsort(topic)
cumulative = np.cumsum(within[by_topic])  # grows by 1 in each topic


def next_words(before, last):
    """Draws the next word of many texts at once."""
    topics = topic_probabilities(before, last).cumsum(1)
    chosen = (topics < rng.random((len(last), 1))).sum(1)
    place = np.searchsorted(
        cumulative, chosen.clip(0, NUM_TOPICS - 1) + rng.random(len(last))
    )
    return by_topic[place.clip(0, NUM_WORDS - 1)]


words = list(rng.choice(NUM_WORDS, (2, 1_000), p=frequency))  # 1,000 texts
while len(words) < 2 + (NUM_EXAMPLES + HELD_OUT) // 1_000:
    words.append(next_words(words[-2], words[-1]))
words = np.array(words, np.int32)

# The last words of the texts are held out.
x = np.stack([words[:-2].ravel(), words[1:-1].ravel()], axis=1)
y = words[2:].ravel()
x, x_test = x[:-HELD_OUT], x[-HELD_OUT:]
y, y_test = y[:-HELD_OUT], y[-HELD_OUT:]
order = rng.permutation(len(y))
x, y = x[order], y[order]

p_topic = topic_probabilities(*x_test.T)[np.arange(HELD_OUT), topic[y_test]]
lowest = -np.log(p_topic * within[y_test]).mean()
print(f"{len(y):,} examples, {len(np.unique(y)):,} different words")
print(f"lowest possible loss   {lowest:.2f} nats")
print(f"word frequencies alone {-np.log(frequency[y_test]).mean():.2f} nats")

# %% [markdown]
# ## The model with Dense
#
# The biases of `Dense` start at the log-frequencies of the words, so that the
# model need not learn the frequencies first. The heads of `tf_hsm` start there
# too if the tree has counts.
#
# The learning rate 4e-3 is the best one for `Dense` after 240 to 320 steps,
# of 2e-3, 4e-3, 8e-3 and 16e-3. All models here use this rate.

# %%
counts = np.bincount(y, minlength=NUM_WORDS)


def body():
    """The layers below the head, with the same initial weights each time."""
    keras.utils.set_random_seed(0)
    return [
        keras.layers.Embedding(NUM_WORDS, 64),
        keras.layers.Flatten(),
        keras.layers.Dense(128, activation="tanh"),
    ]


dense = keras.Sequential([*body(), keras.layers.Dense(NUM_WORDS)])
dense.build([None, 2])
dense.layers[-1].bias.assign(np.log((counts + 1) / len(y)))
dense.compile(
    keras.optimizers.Adam(LEARNING_RATE),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)

# %% [markdown]
# ## The model with a tree
#
# Two lines change: the head in place of `Dense`, and its loss in place of
# Keras' loss. `LazyAdam` is Adam that updates only the rows of a batch.
#
# The tree decides which words share a group. `Tree.from_data` reads the
# training examples and puts words together that occur after the same words.
# `Tree.from_counts` needs only the counts.

# %%
start = time.process_time()
tree = tf_hsm.Tree.from_data(y, x, num_classes=NUM_WORDS, verbose=False)
tree_seconds = time.process_time() - start
print(tree)
print(f"made in {tree_seconds:.1f} s")

head = tf_hsm.layers.HierarchicalSoftmax(tree)
model = keras.Sequential([*body(), head])
model.compile(tf_hsm.optimizers.LazyAdam(LEARNING_RATE), head.loss)

counts_head = tf_hsm.layers.HierarchicalSoftmax(tf_hsm.Tree.from_counts(counts))
counts_model = keras.Sequential([*body(), counts_head])
counts_model.compile(
    tf_hsm.optimizers.LazyAdam(LEARNING_RATE), counts_head.loss
)

# %% [markdown]
# ## Train
#
# The three models see the same batches in the same order. Time here is CPU
# time, summed over the cores, because other programs on the machine disturb it
# less than wall-clock time. The clock runs during `fit` only. The notebook
# measures the held-out loss between the calls of `fit`. A first call with one
# batch compiles the step before the clock starts. The curve of
# `Tree.from_data` begins with the seconds that making the tree takes. The times
# below are from a busy machine with two cores.


# %%
def train(model, rounds):
    """Returns steps, seconds and held-out losses, `[rounds]` each."""
    model.fit(x[:BATCH], y[:BATCH], batch_size=BATCH, verbose=0)
    seconds, curve = 0.0, []
    for i in range(rounds):
        part = slice(i * STEPS * BATCH, (i + 1) * STEPS * BATCH)
        start = time.process_time()
        model.fit(x[part], y[part], batch_size=BATCH, shuffle=False, verbose=0)
        seconds += time.process_time() - start
        loss = model.evaluate(x_test, y_test, batch_size=250, verbose=0)
        curve.append(((i + 1) * STEPS, seconds, loss))
    return np.array(curve).T


curves = {
    "Dense": train(dense, DENSE_ROUNDS),
    "Tree.from_counts": train(counts_model, TREE_ROUNDS),
    "Tree.from_data": train(model, TREE_ROUNDS),
}
curves["Tree.from_data"][1] += tree_seconds  # making the tree counts

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
for name, (steps, seconds, losses) in curves.items():
    axes[0].plot(steps, losses, label=name)
    axes[1].plot(seconds, losses, label=name)
for axis, unit in zip(axes, ("steps", "CPU seconds"), strict=True):
    axis.axhline(lowest, color="gray", linestyle=":", label="lowest possible")
    axis.set_xlabel(unit)
axes[0].set_ylabel("held-out loss in nats")
axes[0].legend()
figure.tight_layout()

# %%
dense_steps, dense_seconds, dense_losses = curves["Dense"]
print(f"{'':17}{'ms a step':>10}{'same steps':>12}{'same time':>11}")
for name, (steps, seconds, losses) in curves.items():
    ms = 1e3 * (seconds[-1] - seconds[0]) / (steps[-1] - steps[0])
    same_steps = losses[steps <= dense_steps[-1]][-1]
    in_time = losses[seconds <= dense_seconds[-1]]
    same_time = in_time[-1] if len(in_time) else np.nan
    print(f"{name:17}{ms:10.1f}{same_steps:12.2f}{same_time:11.2f}")
print(f"Losses after {dense_steps[-1]:.0f} steps, ", end="")
print(f"and within {dense_seconds[-1]:.0f} CPU seconds; the trees stop earlier")

# %% [markdown]
# ## The most probable words
#
# `top_k` finds the most probable words of all, exactly, and opens only the
# groups that can hold one of them. To check the answer, compute all
# 50,000 log-probabilities and sort them.

# %%
hidden = model.predict(x_test[:400], verbose=0)
log_probs, best = head.top_k(hidden, 10)
every = head.log_probs(hidden).numpy()  # [400, NUM_WORDS]
np.testing.assert_allclose(log_probs, -np.sort(-every)[:, :10], atol=1e-4)
np.testing.assert_allclose(np.exp(every).sum(1), 1, atol=1e-3)

dense_hidden = keras.Sequential(dense.layers[:-1])(x_test[:400])


def dense_top_k():
    return keras.ops.top_k(dense.layers[-1](dense_hidden), 10)


for name, find in {
    "the tree": lambda: head.top_k(hidden, 10),
    "Dense": dense_top_k,
}.items():
    find()  # the first call takes more time than later ones
    start = time.process_time()
    for _ in range(3):
        find()
    ms = 1e3 * (time.process_time() - start) / 3
    print(f"top 10 of {len(hidden)} inputs, {name:8} {ms:6.1f} CPU ms")
print("the ten best words of the first input:", best[0].numpy())

# %% [markdown]
# ## Save and load
#
# A `.keras` file holds the model, its tree and its optimizer. A program
# that loads the file must import `tf_hsm` first.

# %%
with tempfile.TemporaryDirectory() as folder:
    model.save(f"{folder}/model.keras")
    loaded = keras.models.load_model(f"{folder}/model.keras")
losses = [m.evaluate(x_test, y_test, verbose=0) for m in (model, loaded)]
assert losses[0] == losses[1]
print("the loaded model has the same held-out loss")

# %% [markdown]
# ## What this shows, and what it does not
#
# * A training step with a tree takes a small part of the CPU time of a step
#   with `Dense`, because a label needs two groups of the tree instead of 50,000
#   rows.
# * After equal steps `Tree.from_counts` has about the loss of `Dense`, and
#   `Tree.from_data` a lower one. This text suits `Tree.from_data`: words of one
#   topic occur after the same words.
#   [fit.md](../fit.md) measures real texts, other heads and three seeds.
# * The notebook stops long before any model is done, and has one seed. Over
#   many epochs a tree overfits sooner than `Dense`.
# * On a GPU `Dense` takes much less time: this comparison is for CPUs.
#
# [The guide](../guide.md) continues from here.
