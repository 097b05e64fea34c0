"""Texts from which models learn in seconds."""

import random


def write_sentences(folder, num_lines=700):
    """Writes sentences whose words mostly follow from the word before.

    Returns:
        The path of the file, text.txt in the folder.
    """
    rng = random.Random(0)
    lines = []
    for i in range(num_lines):
        k = rng.randrange(30)
        lines.append(f"the noun{k} sees a noun{k // 2} and verb{k}s .")
        if i % 10 == 0:
            lines.append(f"seen once : name{i}")
    path = folder / "text.txt"
    path.write_text("\n".join(lines))
    return path
