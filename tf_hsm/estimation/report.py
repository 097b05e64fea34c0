"""Estimates as text and as dicts."""

import dataclasses

from tf_hsm._units import digits, of_bytes, short, table

_PASSES = ("forward", "backward", "update")
_MAX_ROWS = 20  # of more parts, those that are alike share one
_OF_PARTS = (
    *("name", "kind", "parameters", "parameter_bytes", "gradient_bytes"),
    *("slot_bytes", "constant_bytes", "saved_bytes", "forward_bytes"),
    *("backward_bytes", "update_bytes", "making_bytes", "filling_bytes"),
)
_TOTALS = (
    *("parameters", "parameter_bytes", "gradient_bytes", "slot_bytes"),
    *("saved_bytes", "temporary_bytes", "peak_bytes", "milliseconds"),
    *("tokens_per_second", "hours_per_epoch", "fits", "spare_bytes"),
)


def to_dict(estimate):
    """See `Estimate.to_dict`."""
    setting, replicas = estimate.setting, estimate.replicas
    return {
        "name": estimate.name,
        "batch": setting.batch,
        "length": setting.length,
        "labels": estimate.labels,
        "dtype": setting.dtype,
        "compute_dtype": setting.compute_dtype,
        "optimizer": setting.slots.name,
        "machine": estimate.machine.name,
        "memory": estimate.memory,
        "corpus_tokens": estimate.corpus_tokens,
        "replicas": replicas.count if replicas else 1,
        "wire_bytes": replicas.wire_bytes if replicas else 0,
        **{name: getattr(estimate, name) for name in _TOTALS},
        "flops": dict(zip(_PASSES, estimate.flops, strict=True)),
        "uncounted": list(estimate.uncounted),
        "alternatives": [
            {
                "arguments": text,
                "peak_bytes": other.peak_bytes,
                "milliseconds": other.milliseconds,
            }
            for text, other in estimate.alternatives
        ],
        "parts": [
            {
                **{name: getattr(part, name) for name in _OF_PARTS},
                **{name: _work_dict(getattr(part, name)) for name in _PASSES},
                "milliseconds": dict(
                    zip(_PASSES, (1000 * s for s in seconds), strict=True)
                ),
                "uncounted": list(part.uncounted),
            }
            for part, seconds in zip(
                estimate.parts, estimate.seconds, strict=True
            )
        ],
    }


def _work_dict(work):
    return {"flops": work.flops, "bytes": work.bytes, "ops": work.ops}


def report(estimate):
    """Returns the table of an estimate, and what it comes to."""
    # Where there are many parts, equal parts share a row.
    alike = {}
    for number, part in enumerate(estimate.parts):
        key = part.named("") if len(estimate.parts) > _MAX_ROWS else number
        alike.setdefault(key, []).append((part, estimate.seconds[number]))
    rows = []
    for group in alike.values():
        parts, seconds = zip(*group, strict=True)
        more = f" (x {len(parts)})" if len(parts) > 1 else ""
        own = dataclasses.replace(estimate, parts=parts, seconds=seconds)
        rows.append(_row(own, parts[0].name + more, parts[0].kind))
    total = _row(estimate, "total", "")
    total |= {"temporary": of_bytes(estimate.temporary_bytes)}
    return "\n".join(
        [_title(estimate), *table([*rows, total]), *_sentences(estimate)]
    )


def _row(estimate, name, kind):
    parts, (forward, *others) = estimate.parts, estimate.flops
    temporary = max(
        max(p.forward_bytes, p.backward_bytes, p.update_bytes) for p in parts
    )
    moved = sum(getattr(p, what).bytes for p in parts for what in _PASSES)
    return {
        "layer": name,
        "kind": kind,
        **_sizes(estimate),
        "saved": of_bytes(estimate.saved_bytes),
        "temporary": of_bytes(temporary),
        "FLOP forward": short(forward).strip(),
        "backward": short(sum(others)).strip(),
        "moved": of_bytes(moved),
        "ms": digits(1000 * sum(map(sum, estimate.seconds))),
    }


def _sizes(estimate):
    """Returns the columns that all tables have."""
    return {
        "parameters": f"{estimate.parameters:,}",
        "parameter bytes": of_bytes(estimate.parameter_bytes),
        "gradient": of_bytes(estimate.gradient_bytes),
        "slots": of_bytes(estimate.slot_bytes),
    }


def _title(estimate):
    setting = estimate.setting
    dtype = setting.dtype
    if setting.compute_dtype != dtype:
        dtype = f"{dtype}, activations {setting.compute_dtype}"
    step = f"{setting.batch:,} examples"
    if setting.length > 1:
        step = f"{setting.batch:,} sequences of length {setting.length:,}"
    if estimate.replicas:
        step += f" on each of {estimate.replicas.count:,} devices"
    is_trained = setting.slots.optimizer is not None
    what = "training step" if is_trained else "forward pass"
    return f"{estimate.name}: a {what} of {step}, {dtype}, {setting.slots.name}"


def _sentences(estimate):
    constants = sum(part.constant_bytes for part in estimate.parts)
    arrays = f", {of_bytes(constants)} of it arrays of trees"
    lines = [
        f"peak memory: {of_bytes(estimate.peak_bytes)}"
        + arrays * bool(constants)
        + "; the process itself comes on top",
    ]
    if estimate.memory is not None:
        spare = estimate.spare_bytes
        fits = f"yes, {of_bytes(spare)} to spare"
        if not estimate.fits:
            fits = f"no, {of_bytes(-spare)} missing"
        lines.append(f"fits in {of_bytes(estimate.memory)}: {fits}")
    labels, replicas = _labels(estimate), estimate.replicas
    lines.append(
        f"on {_machine(estimate)}: {digits(estimate.milliseconds)} ms a step, "
        f"{digits(estimate.tokens_per_second)} {labels}/s"
    )
    if replicas:
        lines.append(
            f"of it {digits(1000 * replicas.seconds)} ms for the gradients: "
            f"each device sends {of_bytes(replicas.wire_bytes)}"
        )
    if estimate.hours_per_epoch is not None:
        lines.append(
            f"an epoch of {short(estimate.corpus_tokens).strip()} {labels}: "
            f"{digits(estimate.hours_per_epoch)} hours"
        )
    lines += [f"not counted: {what}" for what in estimate.uncounted]
    return [f"  {line}" for line in [*lines, *_about_optimizers(estimate)]]


def _about_optimizers(estimate):
    """Says what the optimizer takes, where others need less."""
    alternatives = estimate.alternatives
    if not alternatives:
        return
    update = 1000 * sum(seconds[2] for seconds in estimate.seconds)
    tables = max(part.update_bytes for part in estimate.parts)
    temporary = f" and {of_bytes(tables)} of temporary tables" if tables else ""
    yield (
        f"{estimate.setting.slots.name} takes {digits(update)} ms of a step, "
        f"{of_bytes(estimate.slot_bytes)} of slots{temporary}"
    )
    fits = {None: "", True: ", which fits", False: ", which does not fit"}
    for text, other in alternatives:
        yield (
            f"with {text}: {digits(other.milliseconds)} ms a step, a peak of "
            f"{of_bytes(other.peak_bytes)}{fits[other.fits]}"
        )


def _machine(estimate):
    return f"{estimate.machine.name} ({estimate.machine.source})"


def _labels(estimate):
    is_one = estimate.labels == estimate.setting.batch
    return "examples" if is_one else "tokens"


def compare(estimates):
    """Returns a table with a line for each estimate."""
    rows = []
    for estimate in estimates:
        row = {
            "model": estimate.name,
            **_sizes(estimate),
            "peak": of_bytes(estimate.peak_bytes),
            "FLOP": short(sum(estimate.flops)).strip(),
            "ms": digits(estimate.milliseconds),
            f"{_labels(estimate)}/s": digits(estimate.tokens_per_second),
        }
        if estimate.hours_per_epoch is not None:
            row["hours/epoch"] = digits(estimate.hours_per_epoch)
        if estimate.memory is not None:
            fits = "yes" if estimate.fits else "no"
            row[f"fits in {of_bytes(estimate.memory)}"] = fits
        rows.append(row)
    lines = [
        f"ms on {_machine(estimates[0])}; the process itself comes on top of "
        "each peak"
    ]
    uncounted = {what: None for e in estimates for what in e.uncounted}
    lines += [f"not counted: {what}" for what in uncounted]
    for estimate in estimates:
        lines += [f"{estimate.name}: {x}" for x in _about_optimizers(estimate)]
    return "\n".join([*table(rows), *(f"  {line}" for line in lines)])
