"""Text that a trained model writes, one token after the other."""

import numpy as np
import tensorflow as tf

import tf_hsm
from examples.corpora import splitters
from examples.corpora.formats import END_OF_DOCUMENT, UNKNOWN
from examples.language_model import model as model_lib
from examples.language_model import reading, settings

_DRAWS = 32


def generate(model, run, prompt=(), **options):
    """Returns texts that begin with the prompt and go on as the model draws.

    Args:
        model: see `draw`; so is `prompt`.
        run: the `checkpoint.Run` of the model.
        prompt: tokens.
        **options: the other arguments of `draw`.

    Returns:
        `num_texts` strings.
    """
    written = list(draw(model, run, prompt, **options))
    splitter = splitters.named(run.tokens)
    return [
        "".join(splitters.pieces(splitter, [*prompt, *until_end(tokens)]))
        for tokens in zip(*written, strict=True)
    ]


def draw(
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
    """Yields the next token of each text, until all have ended.

    A text begins as in training, after the end of another document or line, or
    after an `<unk>`. It ends after `length` tokens or with an `<eof>`, which is
    shown. An `<unk>` is drawn
    again, by which all other classes keep their odds; after 32 times `<unk>`
    (the model is sure of it, or `top_k` and `top_p` leave little else), the
    most probable other class is taken.

    Args:
        model: a trained model; it does not change.
        run: the `checkpoint.Run` of the model.
        prompt: tokens, as of `Splitter.split_beginning`; those that are no
            class are shown, but read as `<unk>`.
        length: tokens to write, at least 1.
        num_texts: how many texts, at least 1.
        seed: an integer; the same one gives the same texts.
        temperature: see `tf_hsm.hierarchical_softmax_sample`; so are `top_k`
            and `top_p`.
        top_k: at most `len(words)`, or None.
        top_p: in (0, 1]; 1 leaves all classes.

    Yields:
        `num_texts` strings, each a token; what follows an `<eof>` is no part of
        a text.
    """
    words = run.words
    unknown = words.index(UNKNOWN)
    step, state = reading.reader(model_lib.body(model), num_texts)
    head = model.get_layer("head")

    @tf.function
    def draw_classes(hidden, seed):
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
    ended = np.zeros(num_texts, bool)
    for position in range(length):
        classes = draw_classes(hidden, tf.constant([seed, position], tf.int64))
        tokens = [words[c] for c in classes.numpy()]
        yield tokens
        ended |= np.array(tokens) == END_OF_DOCUMENT
        if ended.all():
            break
        hidden, state = step(classes, state)


def search(model, run, prompt=(), length=100, beam_width=8):
    """Returns the most probable texts that a beam search finds, best first.

    They begin and end as those of `draw`, and have no `<unk>` either.

    Args:
        model: see `draw`; so are `run`, `prompt` and `length`.
        run: the `checkpoint.Run` of the model.
        prompt: tokens.
        length: tokens to write.
        beam_width: how many texts the search goes on with after each token,
            and returns.

    Returns:
        A list of lists of tokens; fewer if there are fewer texts.
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
    return [
        [words[c] for c in classes[:n]]
        for classes, n in zip(
            found.classes[0].numpy(), found.lengths[0].numpy(), strict=True
        )
        if n
    ]


def _first(run, prompt):
    """The classes to read first: what stands before a text, and the prompt."""
    class_of = {word: np.int64(i) for i, word in enumerate(run.words)}
    unknown = class_of[UNKNOWN]
    return [class_of.get(word, unknown) for word in (run.boundary, *prompt)]


def until_end(tokens):
    """Yields the tokens up to the first `<eof>`, if there is one."""
    for token in tokens:
        yield token
        if token == END_OF_DOCUMENT:
            return
