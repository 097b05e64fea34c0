"""Bodies by a short text, such as "lstm:2x2048"."""

import dataclasses
import re

from tf_hsm.estimation import body

_CELLS = ("lstm", "gru", "rnn")
_FORMS = (
    "embedding:WIDTH, lstm:LAYERSxWIDTH, gru:LAYERSxWIDTH, rnn:LAYERSxWIDTH or "
    "transformer:LAYERSxWIDTH:HEADS"
)
_HEAD_WIDTH = 64  # of attention, if the text does not say how many
_TEXT = re.compile(
    r"(?P<kind>\w+):(?:(?P<layers>\d+)x)?(?P<width>\d+)(?::(?P<heads>\d+))?"
)


@dataclasses.dataclass(frozen=True)
class BodyText:
    """What a text says.

    Attributes:
      kind: "embedding", "lstm", "gru", "rnn" or "transformer".
      layers: how many.
      width: of each.
      heads: of a transformer, 64 numbers each if the text does not say.
    """

    kind: str
    layers: int
    width: int
    heads: int | None

    @property
    def unit(self):
        """What the width must be a multiple of."""
        if self.kind != "transformer":
            return 1
        return _HEAD_WIDTH if self.heads is None else self.heads

    @property
    def text(self):
        """What `parse` reads as this."""
        if self.kind == "embedding":
            return f"embedding:{self.width}"
        text = f"{self.kind}:{self.layers}x{self.width}"
        return text + f":{self.heads}" * (self.heads is not None)

    def make(self, length, vocabulary):
        """Returns the `Body`, for sequences of `length` of so many words."""
        if self.kind == "transformer":
            return body.transformer(
                layers=self.layers,
                d_model=self.width,
                heads=self.heads or max(self.width // _HEAD_WIDTH, 1),
                length=length,
                vocabulary=vocabulary,
            )
        if self.kind == "embedding":
            if vocabulary is None:
                raise ValueError(
                    f"the body {self.text!r} needs vocabulary, its rows"
                )
            return body.embedding(vocabulary, self.width, length=length)
        cell = "simple_rnn" if self.kind == "rnn" else self.kind
        return body.recurrent(
            cell,
            [self.width] * self.layers,
            vocabulary=vocabulary,
            length=length,
        )


def parse(text):
    """Reads "lstm:2x2048", "gru:512" or "transformer:6x512:8".

    Raises:
      ValueError: it has another form.
    """
    found = _TEXT.fullmatch(text)
    kinds = ("embedding", "transformer", *_CELLS)
    good = found is not None and found["kind"] in kinds
    if good and found["kind"] != "transformer":
        good = found["heads"] is None
    if good and found["kind"] == "embedding":
        good = found["layers"] is None
    if not good:
        raise ValueError(f"the body {text!r} has another form than {_FORMS}")
    layers, width = int(found["layers"] or 1), int(found["width"])
    heads = None if found["heads"] is None else int(found["heads"])
    for name, value in (("layers", layers), ("width", width), ("heads", heads)):
        if value == 0:
            raise ValueError(f"the body {text!r} has {name} 0; at least 1")
    return BodyText(found["kind"], layers, width, heads)
