"""The notebook pages of the site: Markdown and pictures from each notebook.

The notebooks hold their outputs, so the site runs no code of them. This module
needs neither Sphinx nor Jupyter.
"""

import base64
import json
import pathlib


def write_pages(notebooks, folder):
    """Writes NAME.md and NAME-1.png, NAME-2.png, ... for each notebook.

    Args:
        notebooks: the folder with `.ipynb` files.
        folder: where the pages go; it is made if it is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(pathlib.Path(notebooks).glob("*.ipynb")):
        pictures = []
        parts = [
            part
            for cell in json.loads(path.read_text())["cells"]
            for part in _parts(cell, path.stem, pictures)
        ]
        (folder / f"{path.stem}.md").write_text("\n\n".join(parts) + "\n")
        for number, picture in enumerate(pictures, 1):
            (folder / f"{path.stem}-{number}.png").write_bytes(picture)


def _parts(cell, name, pictures):
    """Yields the Markdown of a cell, and appends its pictures to a list."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            yield f"```text\n{''.join(output['text']).rstrip()}\n```"
        else:
            pictures.append(base64.b64decode(output["data"]["image/png"]))
            yield f"![Output of the cell]({name}-{len(pictures)}.png)"
