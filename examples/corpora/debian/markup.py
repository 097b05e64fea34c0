"""Running text from the formats that documents are packed in.

Each function takes the text of a file and returns it without its markup.
"""

import html.parser
import re

# Elements whose text is no part of the page's own, by name and by class.
_SKIPPED = {"head", "nav", "script", "select", "style"}
_NAVIGATION = {"docnav", "menu", "navfooter", "navheader", "searchmenu", "toc"}
_BLOCKS = {
    *("address", "article", "blockquote", "br", "center", "dd", "div", "dl"),
    *("dt", "figure", "form", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li"),
    *("main", "ol", "p", "pre", "section", "table", "tr", "ul"),
}
_CELLS = {"td", "th"}

_DICTIONARY_SOURCE = re.compile(r"^\s*\[[^\]\n]*\]\n", re.M)
_LINK_BRACES = str.maketrans("", "", "{}")
_POD_COMMAND = re.compile(r"^=(?:head\d|item)[ \t]+|^=\w.*$", re.M)
_POD_WIDE_CODE = re.compile(r"\b[A-Z](<<+)\s(.*?)\s>>+", re.S)
_POD_CODE = re.compile(r"\b([A-Z])<([^<>]*)>")
# Angle brackets of the text itself, until the codes are gone.
_POD_ANGLES = {"lt": "\ue000", "gt": "\ue001"}
_ANGLES = str.maketrans("\ue000\ue001", "<>")
_PERCENT = re.compile(r"^%$", re.M)
_TAG = re.compile(r"<[^<>]*>")


def plain(text):
    """Text, and formats that read like it, such as reStructuredText."""
    return text


def web_page(text):
    """HTML: the text of a page, with line ends where blocks end."""
    page = _Page()
    page.feed(text)
    page.close()
    return page.text()


def dictionary(text):
    """Entries of dictd: without the braces of links and lines on sources."""
    return _DICTIONARY_SOURCE.sub("", text).translate(_LINK_BRACES)


def fortunes(text):
    """Sayings, each behind a line with a percent sign."""
    return _PERCENT.sub("", text)


def tagged(text):
    """Text with tags and entities, whose line ends are its own."""
    return html.unescape(_TAG.sub("", text))


def pod(text):
    """Perl's documentation: without commands and formatting codes."""
    text = _POD_COMMAND.sub("", text)
    text = _POD_WIDE_CODE.sub(r"\2", text)
    found = True
    while found:  # codes within codes
        text, found = _POD_CODE.subn(_pod_text, text)
    return text.translate(_ANGLES)


def _pod_text(code):
    """What a formatting code shows."""
    letter, content = code.groups()
    if letter in "XZ":  # an entry of the index, nothing
        return ""
    if letter == "E":
        return _POD_ANGLES.get(content) or html.unescape(f"&{content};")
    return content.partition("|")[0] if letter == "L" else content


def glosses(text):
    """WordNet's data files, wndb(5WN): "dog, domestic dog: a member of ..."."""
    lines = []
    for line in text.splitlines():
        fields, bar, gloss = line.partition("|")
        if line.startswith("  ") or not bar:
            continue
        fields = fields.split()
        words = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
        names = ", ".join(words).replace("_", " ")
        lines.append(f"{names}: {gloss.strip()}\n")
    return "".join(lines)


class _Page(html.parser.HTMLParser):
    """The text of a page."""

    def __init__(self):
        super().__init__()
        self._pieces = ["\n"]
        self._preformatted = 0
        # How often the element that is skipped is open within itself.
        self._skipped, self._depth = None, 0

    def text(self):
        lines = "".join(self._pieces).split("\n")
        text = "\n".join(line.rstrip() for line in lines).strip("\n")
        return re.sub(r"\n{3,}", "\n\n", text) + "\n"

    def handle_starttag(self, tag, attrs):
        if self._skipped:
            self._depth += tag == self._skipped
            return
        classes = (dict(attrs).get("class") or "").split()
        if tag in _SKIPPED or not _NAVIGATION.isdisjoint(classes):
            self._skipped, self._depth = tag, 1
            return
        self._separate(tag)
        self._preformatted += tag == "pre"

    def handle_endtag(self, tag):
        if self._skipped:
            self._depth -= tag == self._skipped
            if not self._depth:
                self._skipped = None
            return
        self._separate(tag)
        self._preformatted -= tag == "pre" and self._preformatted > 0

    def handle_data(self, data):
        if self._skipped:
            return
        if not self._preformatted:
            data = re.sub(r"\s+", " ", data)
            if self._pieces[-1].endswith(("\n", " ")):
                data = data.lstrip(" ")
        if data:
            self._pieces.append(data)

    def _separate(self, tag):
        """Begins a new line where a block does, and sets cells apart."""
        end = self._pieces[-1][-1]
        if tag in _BLOCKS and end != "\n":
            self._pieces.append("\n")
        elif tag in _CELLS and end not in "\n ":
            self._pieces.append(" ")
