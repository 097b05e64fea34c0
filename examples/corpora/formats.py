"""How a text is divided into documents or lines, and its special tokens."""

UNKNOWN = "<unk>"
END_OF_DOCUMENT = "<eof>"
END_OF_LINE = "<eos>"
PARTS = ("train", "valid", "test")
# The token after each document, or after each line.
BOUNDARIES = {"documents": END_OF_DOCUMENT, "lines": END_OF_LINE}
