"""The tables of `gpu/peers.py`, and our figures from the output of `gpu`."""

import pathlib

from benchmarks.common import units

STEPS = {"forward": "forward", "forward_backward": "forward+backward"}
_PRECISIONS = {
    ("float32", "exact"): "float32",
    ("float32", "mma"): "tf32",
    ("bfloat16", "mma"): "bfloat16",
}
_ORDER = list(_PRECISIONS.values())


def read_ours(path):
    """Reads the figures of two-level and flat trees, and their floors.

    Args:
      path: what `gpu` printed: lines of the workload, tree, labels, weights
        and kind of products, then ms and multiples of the floor of forward, of
        forward with backward, and of a step in place, and GB of memory.

    Returns:
      Records like those of `text`, of the implementations "ours" and "floor".

    Raises:
      ValueError: there is no such line, or one ends with an error.
    """
    records = []
    for line in pathlib.Path(path).read_text().splitlines():
        words = line.split()
        precision = _PRECISIONS.get(tuple(words[3:5]))
        if words[1:2] not in (["2-level"], ["flat"]) or precision is None:
            continue
        if len(words) != 12:
            raise ValueError(f"{path} has a line with an error: {line.strip()}")
        case = {
            "workload": words[0],
            "labels": words[2],
            "precision": precision,
        }
        for step, ms, multiple in zip(
            STEPS, words[5:9:2], words[6:9:2], strict=True
        ):
            floor = float(ms) / float(multiple.rstrip("x"))
            for name, figure in (("ours", float(ms)), ("floor", floor)):
                key = {"implementation": name, "step": step}
                records.append(case | key | {"ms": figure})
    if not records:
        raise ValueError(
            f"{path} must be the output of gpu; it has no line of a 2-level "
            "or flat tree"
        )
    return records


def text(title, records):
    """The table of one workload with one kind of labels.

    Args:
      title: its first line.
      records: dicts of "precision", "implementation", "step", and either of
        "refused", or of "ms" and, unless it is ours, "loss" and "part": what
        was measured where the rest is extrapolated, else None.
    """
    rows, notes = {}, []
    for record in records:
        row = record["precision"], record["implementation"]
        rows.setdefault(row, {})[record["step"]] = record
    header = ["", ""]
    for step in STEPS.values():
        header += [f"{step}, ms", "x ours"]
    lines = [[*header, "loss"]]
    # Ours come first, and stay so.
    for precision, name in sorted(rows, key=lambda row: _ORDER.index(row[0])):
        row = rows[precision, name]
        line = [precision, name]
        for step, record in row.items():
            ours = rows.get((precision, "ours"), {}).get(step)
            line += _cells(record, ours and ours["ms"])
            note = record.get("refused") or record.get("part")
            if note:
                notes.append(f"{precision} {name}, {STEPS[step]}: {note}")
        losses = [r["loss"] for r in row.values() if "loss" in r]
        lines.append([*line, *(f"{x:.2f}" for x in losses[:1])])
    return "\n".join([title, "", *units.aligned(lines), *notes])


def _cells(record, ours):
    if "refused" in record:
        return "refused", ""
    figure = units.of_seconds(record["ms"] / 1e3)
    mark = "~" if record.get("part") else ""
    return mark + figure, f"{record['ms'] / ours:.2f}" if ours else ""
