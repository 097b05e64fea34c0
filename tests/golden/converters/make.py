"""Makes the files beside it with gensim and fastText.

    pip install gensim fasttext-wheel numpy
    python tests/golden/converters/make.py

Made with gensim 4.4.0 and fasttext-wheel 0.9.2. The files are

    supervised.bin  labels with equal counts, subwords and pairs of words
    skip_gram.bin   with subwords
    quantized.ftz   the first one's kind, quantized
    fasttext.npz    what fastText makes of these models
    gensim.npz      a Word2Vec model and what gensim makes of it
"""

import pathlib
import struct
import tempfile

import fasttext
import numpy as np
from gensim.models import Word2Vec

FOLDER = pathlib.Path(__file__).parent
WORDS = [
    *("sun", "moon", "rain", "snow", "wind", "über", "straße", "été"),
    *("naïve", "東京", "日本語", "море", "зима", "a", "b", "tea", "café"),
    *("🙂", "x1", "x2"),
]
LABEL_COUNTS = (30, 30, 17, 17, 17, 9, 8, 8, 8, 3, 3, 2, 1)
LINES = (
    "sun moon rain",
    "sun",
    "über die straße naïve",
    "東京 日本語 日本 unknown",
    "a b a b a b",
    "tea\tcafé  🙂 __label__nobody __label__3 x1",
    "snow </s> wind",
    "",
)


def corpus(seed):
    """Yields a label and its words; what words come depends on the label."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(LABEL_COUNTS)), LABEL_COUNTS)
    for label in rng.permutation(labels):
        size = rng.integers(3, 9)
        places = (3 * label + rng.geometric(0.3, size)) % len(WORDS)
        yield label, [WORDS[place] for place in places]


def with_words_as_labels(data):
    """Makes a supervised model of a skip-gram model, with the same matrices.

    fastText makes no predictions with a skip-gram model. Here its words are
    labels too, with the same counts, so that the tree stays what it was.
    """
    entries_at = 64 + struct.calcsize("<3i2q")
    size, num_words, num_labels, tokens, pruned = struct.unpack_from(
        "<3i2q", data, 64
    )
    assert (num_words, num_labels) == (size, 0)
    end, labels = entries_at, b""
    for _ in range(size):
        zero = data.index(b"\0", end)
        text, end = data[end:zero], zero + 10
        labels += b"__label__" + text + data[zero : end - 1] + b"\1"
    supervised = data[:36] + struct.pack("<i", 3) + data[40:64]
    counts = struct.pack("<3i2q", 2 * size, size, size, tokens, pruned)
    return supervised + counts + data[entries_at:end] + labels + data[end:]


def predictions(model, lines):
    """Returns the vectors of lines, and `[lines, labels]` probabilities."""
    labels = model.get_labels()
    probs = np.full([len(lines), len(labels)], np.nan)
    for number, line in enumerate(lines):
        # `predict` fails with NumPy 2, and for a list repeats one number.
        for prob, label in model.f.predict(f"{line}\n", -1, 0.0, "strict"):
            probs[number, labels.index(label)] = prob
    return np.stack([model.get_sentence_vector(x) for x in lines]), probs


def make_fasttext(folder):
    """Writes the models of fastText and what it makes of them."""
    text = folder / "text"
    options = {
        "input": str(text),
        "loss": "hs",
        "minCount": 1,
        "thread": 1,
        "verbose": 0,
        "epoch": 30,
    }
    text.write_text(
        "".join(f"__label__{c} {' '.join(words)}\n" for c, words in corpus(0))
    )
    supervised = fasttext.train_supervised(
        **options, lr=0.5, dim=5, wordNgrams=2, minn=2, maxn=4, bucket=60
    )
    supervised.save_model(str(FOLDER / "supervised.bin"))
    quantized = fasttext.train_supervised(
        **options, lr=0.5, dim=2, wordNgrams=2, bucket=300
    )
    quantized.quantize()
    quantized.save_model(str(FOLDER / "quantized.ftz"))

    text.write_text("".join(" ".join(words) + "\n" for _, words in corpus(1)))
    skip_gram = fasttext.train_unsupervised(
        **options,
        model="skipgram",
        lr=0.3,
        t=1.0,
        dim=4,
        minn=1,
        maxn=3,
        bucket=40,
    )
    path = FOLDER / "skip_gram.bin"
    skip_gram.save_model(str(path))
    predicting = folder / "predicting.bin"
    predicting.write_bytes(with_words_as_labels(path.read_bytes()))

    lines = list(LINES)
    vectors, probs = predictions(supervised, lines)
    word_vectors, word_probs = predictions(
        fasttext.load_model(str(predicting)), skip_gram.get_words()
    )
    np.savez(
        FOLDER / "fasttext.npz",
        lines=np.array(lines),
        labels=np.array(supervised.get_labels()),
        label_counts=supervised.get_labels(include_freq=True)[1],
        line_vectors=vectors,
        line_probs=probs,
        supervised_vectors=_word_vectors(supervised),
        words=np.array(skip_gram.get_words()),
        word_counts=skip_gram.get_words(include_freq=True)[1],
        skip_gram_vectors=_word_vectors(skip_gram),
        skip_gram_inputs=word_vectors,
        skip_gram_probs=word_probs,
    )


def _word_vectors(model):
    return np.stack([model.get_word_vector(w) for w in model.get_words()])


def make_gensim():
    """Writes a model of gensim, and the scores of all pairs of words."""
    model = Word2Vec(
        [words for _, words in corpus(2)],
        vector_size=6,
        sg=1,
        hs=1,
        negative=0,
        min_count=1,
        sample=0,
        alpha=0.1,
        epochs=40,
        workers=1,
        seed=3,
    )
    words = model.wv.index_to_key
    codes = [model.wv.get_vecattr(word, "code") for word in words]
    points = [model.wv.get_vecattr(word, "point") for word in words]
    pairs = [[first, second] for first in words for second in words]
    np.savez(
        FOLDER / "gensim.npz",
        words=np.array(words),
        lengths=np.array([len(code) for code in codes]),
        codes=np.concatenate(codes),
        points=np.concatenate(points),
        syn1=model.syn1,
        vectors=model.wv.vectors,
        scores=model.score(pairs).reshape(len(words), len(words)),
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        make_fasttext(pathlib.Path(temporary))
    make_gensim()
