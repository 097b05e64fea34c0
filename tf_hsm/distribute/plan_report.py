"""The text of a plan."""

from tf_hsm._units import digits, of_bytes

_MAX_LINES = 16


def report(plan):
    """Returns lines: the top, each shard, the step, what is uneven."""
    cost = plan.cost
    top, what, where = cost.top, "device", ""
    if plan.step.on_replicas:
        what, where = "replica", ", a copy on each replica"
    size = "" if top.bytes is None else f", {of_bytes(top.bytes)}"
    lines = [
        f"Plan of {plan.tree.num_classes:,} classes over "
        f"{_of(len(plan.devices), what)}",
        f"  the top, which all examples pass: {top.rows:,} rows{size}{where}; "
        f"{top.work:,.1f} rows per example, {_percent(top.work_share)} of the "
        "work",
        f"  below it: {_of(top.subtrees, 'subtree')}; "
        f"{sum(s.rows for s in cost.shards):,} rows, "
        f"{sum(s.work for s in cost.shards):,.1f} rows per example",
    ]
    lines += _of_shards(cost) if top.subtrees else []
    return "\n".join(lines + [f"  {remark}" for remark in cost.remarks])


def _of_shards(cost):
    step = cost.step
    lines = ["  " + line for line in table(_shard_table(cost))]
    if len(cost.shards) > _MAX_LINES:
        lines.append(f"  … {len(cost.shards) - _MAX_LINES:,} more")
    lines.append(
        f"  largest over mean: {cost.largest_work:.3f} of the work, "
        f"{cost.largest_rows:.3f} of the rows"
    )
    if step.batch is not None:
        lines.append(
            f"  by chance, the fullest shard of a step with {step.batch:,} "
            f"examples has {cost.largest_by_chance:.3f} times the mean work; "
            "a synchronous step waits for it"
        )
    if cost.wire_bytes is not None:
        gradients, what = "", "h, dx, label, its weight, loss"
        if step.on_replicas:
            what += ", its gradient"
            gradients = (
                f"; each replica sends {of_bytes(cost.top.sent_bytes)} "
                "for the gradients of the top"
            )
        lines += [
            f"  on the wire: {cost.wire_bytes_per_example:,} bytes per example "
            f"({what}), {of_bytes(cost.wire_bytes)} a step, "
            f"{digits(cost.wire_milliseconds)} ms at "
            f"{of_bytes(step.network)}/s each way{gradients}; touched rows and "
            f"their gradients would be {of_bytes(cost.parameter_bytes)}",
            f"  predicted: {digits(cost.top.milliseconds)} ms for the top, "
            f"{digits(max(s.milliseconds for s in cost.shards))} ms for the "
            f"slowest shard, {digits(cost.milliseconds)} ms a step; "
            f"{digits(cost.worst_milliseconds)} ms if all labels are in one "
            "shard",
        ]
    return lines


def _shard_table(cost):
    shown = cost.shards[:_MAX_LINES]
    columns = {
        "device": [s.device for s in shown],
        "subtrees": [f"{s.subtrees:,}" for s in shown],
        "classes": [f"{s.classes:,}" for s in shown],
        "rows": [f"{s.rows:,}" for s in shown],
        "of rows": [_percent(s.rows_share) for s in shown],
        "of work": [_percent(s.work_share) for s in shown],
        "of labels": [_percent(s.examples_share) for s in shown],
    }
    if cost.step.width is not None:
        columns["bytes"] = [of_bytes(s.bytes) for s in shown]
    if cost.wire_bytes is not None:
        if cost.step.on_replicas:
            columns["sent"] = [of_bytes(s.sent_bytes) for s in shown]
            columns["received"] = [of_bytes(s.received_bytes) for s in shown]
        else:
            columns["wire"] = [of_bytes(s.wire_bytes) for s in shown]
        columns["ms"] = [digits(s.milliseconds) for s in shown]
    return columns


def table(columns):
    """Returns lines of text: a column left of others that align right.

    Args:
      columns: title -> list of strs.
    """
    widths = [
        max(map(len, [title, *cells])) for title, cells in columns.items()
    ]
    rows = zip(*columns.values(), strict=True)
    return [
        "  ".join(
            [row[0].ljust(widths[0])]
            + [
                cell.rjust(w)
                for cell, w in zip(row[1:], widths[1:], strict=True)
            ]
        ).rstrip()
        for row in [tuple(columns), *rows]
    ]


def _percent(share):
    return f"{100 * share:.3g}%" if share < 1 else "100%"


def _of(number, what):
    return f"{number:,} {what}" + "s" * (number != 1)
