"""Text that a trained model writes, one token after the other."""

import numpy as np
import tensorflow as tf

import tf_hsm
from examples.corpora import splitters
from examples.corpora.formats import END_OF_DOCUMENT, UNKNOWN
from examples.language_model import model as model_lib
from examples.language_model import reading, settings

_DRAWS = 32


def generate(
    model,
    run,
    prompt=(),
    length=100,
    num_texts=1,
    seed=1,
    temperature=1.0,
    top_k=None,
    top_p=settings.TOP_P,
):
    """Returns texts that begin with the prompt and continue as the model draws.

    A text begins as in training, after the end of another document or line, or
    after an `<unk>`. It ends after `length` tokens or with an `<eof>`, which is
    shown. If `<unk>` is drawn, another class is drawn in its place, by the odds
    of the other classes. After 32 times `<unk>` (the model is sure of it, or
    `top_k` and `top_p` leave little else), the most probable other class is
    taken.

    Args:
        model: A trained model; it does not change.
        run: The `checkpoint.Run` of the model.
        prompt: Tokens, as of `split_beginning` of a splitter; tokens that are
            no class are shown, but read as `<unk>`.
        length: Tokens to write, at least 1.
        num_texts: The number of texts, at least 1.
        seed: An integer; the same one gives the same texts.
        temperature: See `tf_hsm.hierarchical_softmax_sample`.
        top_k: At most `len(words)`, or None.
        top_p: In (0, 1]; 1 leaves all classes.

    Returns:
        `num_texts` strings.
    """
    words = run.words
    unknown = words.index(UNKNOWN)
    step, state = reading.reader(model_lib.body(model), num_texts)
    head = model.get_layer("head")

    @tf.function
    def draw(hidden, seed):
        drawn = head.sample(
            hidden,
            _DRAWS,
            seed=seed,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
        )
        best = head.top_k(hidden, min(2, len(words))).classes
        candidates = tf.concat([drawn, best], axis=1)
        first_known = tf.argmax(candidates != unknown, axis=1)
        return tf.gather(candidates, first_known, batch_dims=1)

    for c in _first(run, prompt):
        hidden, state = step(tf.fill([num_texts], c), state)
    texts, ended = [list(prompt) for _ in range(num_texts)], set()
    for position in range(length):
        classes = draw(hidden, tf.constant([seed, position], tf.int64))
        for i, c in enumerate(classes.numpy()):
            if i not in ended:
                texts[i].append(words[c])
            if words[c] == END_OF_DOCUMENT:
                ended.add(i)
        if len(ended) == num_texts:
            break
        hidden, state = step(classes, state)
    return _joined(run, texts)


def search(model, run, prompt=(), length=100, beam_width=8):
    """Returns the most probable texts that a beam search finds, best first.

    The texts begin and end as in `generate`, and have no `<unk>` either.

    Args:
        model: A trained model; it does not change.
        run: The `checkpoint.Run` of the model.
        prompt: Tokens.
        length: Tokens to write.
        beam_width: The number of texts that the search keeps after each token,
            and returns.

    Returns:
        A list of strings; fewer if there are fewer texts.
    """
    words = run.words
    step, state = reading.reader(model_lib.body(model), beam_width)
    *before, last = _first(run, prompt)
    for c in before:
        _, state = step(tf.fill([beam_width], c), state)
    found = tf_hsm.decoding.beam_search(
        step,
        # One prompt; the search repeats it.
        tf.nest.map_structure(lambda x: x[:1], state),
        model.get_layer("head"),
        beam_width=beam_width,
        length=length,
        start=last,
        end=words.index(END_OF_DOCUMENT) if END_OF_DOCUMENT in words else None,
        exclude=[words.index(UNKNOWN)],
    )
    pairs = zip(found.classes[0].numpy(), found.lengths[0].numpy(), strict=True)
    texts = [[*prompt, *(words[c] for c in best[:n])] for best, n in pairs if n]
    return _joined(run, texts)


def _first(run, prompt):
    """The classes to read first: what stands before a text, and the prompt."""
    class_of = {word: np.int64(i) for i, word in enumerate(run.words)}
    unknown = class_of[UNKNOWN]
    return [class_of.get(word, unknown) for word in (run.boundary, *prompt)]


def _joined(run, texts):
    """Makes strings of lists of tokens."""
    splitter = splitters.SPLITTERS[run.tokens]
    return [splitters.join(splitter, tokens) for tokens in texts]
