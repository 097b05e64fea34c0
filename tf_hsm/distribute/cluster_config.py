"""Reads what names the tasks of a cluster: TF_CONFIG, or a part of it."""

import collections.abc
import json
import os
import re

VARIABLE = "TF_CONFIG"
_EXAMPLE = (
    '{"cluster": {"ps": ["host1:2222", "host2:2222"]}, '
    '"task": {"type": "ps", "index": 0}}'
)


def read_variable():
    """Reads the environment variable TF_CONFIG.

    Returns:
      The jobs, as `read_jobs` returns them, and the task, `(job, index)`; each
      None where TF_CONFIG does not say it.

    Raises:
      ValueError: it is not set, or is not what TensorFlow describes.
    """
    text = os.environ.get(VARIABLE)
    if not text:
        raise ValueError(
            f"the environment variable {VARIABLE} is not set; it has the form "
            f"{_EXAMPLE}"
        )
    config = _parse(VARIABLE, text)
    jobs = task = None
    if config.get("cluster"):
        jobs = read_jobs(config["cluster"], f"{VARIABLE}: cluster")
    if config.get("task"):
        task = _read_task(config["task"], jobs)
    return jobs, task


def read_text(text, name):
    """Reads JSON such as `{"ps": ["host1:2222"]}`, as `read_jobs` does."""
    return read_jobs(_parse(name, text), name)


def read_jobs(value, name):
    """Checks the jobs of a cluster.

    Args:
      value: a dict of job names, each with a list of addresses "host:port", or
        with a dict from index to address.
      name: what it is, for the error messages.

    Returns:
      A dict from job to a dict from index to address.

    Raises:
      ValueError: something else was given; names the place.
    """
    if not isinstance(value, collections.abc.Mapping) or not value:
        raise ValueError(
            f"{name} is {value!r}, but must be a dict from each job to its "
            'addresses, as {"ps": ["host1:2222", "host2:2222"]}'
        )
    jobs, places = {}, {}
    for job, addresses in value.items():
        place = f"{name}[{json.dumps(job)}]"
        is_text = isinstance(job, str)
        if not is_text or not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", job):
            raise ValueError(
                f"{name} has the job {job!r}, but a job is a word such as ps"
            )
        jobs[job] = _read_addresses(addresses, place)
        for index, address in jobs[job].items():
            here = f"{place}[{index}]"
            earlier = places.setdefault(address, here)
            if earlier != here:
                raise ValueError(
                    f"{here} is {address}, but so is {earlier}; every task "
                    "has an address of its own"
                )
    return jobs


def _parse(name, text):
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{name} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(
            f"{name} is {text}, but must be a dict in JSON, as {_EXAMPLE}"
        )
    return value


def _read_addresses(value, place):
    if isinstance(value, list | tuple):
        value = dict(enumerate(value))
    if not isinstance(value, collections.abc.Mapping) or not value:
        raise ValueError(
            f'{place} is {value!r}, but must be a list of "host:port"'
        )
    addresses = {}
    for index, address in value.items():
        # A key of JSON is a string.
        if not str(index).isdecimal():
            raise ValueError(
                f"{place} has the index {index!r}, but must have 0 or more"
            )
        host, _, port = str(address).rpartition(":")
        is_port = port.isdecimal() and 1 <= int(port) <= 65535
        if not host or set(host) & set(" /") or not is_port:
            raise ValueError(
                f'{place}[{index}] is {address!r}, but must be "host:port" '
                "with a port of 1 to 65535"
            )
        addresses[int(index)] = str(address)
    return addresses


def _read_task(value, jobs):
    place = f"{VARIABLE}: task"
    if not isinstance(value, dict) or not {"type", "index"} <= set(value):
        raise ValueError(
            f"{place} is {value!r}, but must have a type and an index, as "
            '{"type": "ps", "index": 0}'
        )
    index = value["index"]
    if isinstance(index, bool) or not str(index).isdecimal():
        raise ValueError(
            f'{place}["index"] is {index!r}, but must be an integer of 0 or '
            "more"
        )
    return check_task(value["type"], int(index), jobs, place)


def check_task(job, index, jobs, name):
    """Returns `(job, index)`; raises a ValueError if `jobs` has no such task.

    Args:
      job: a str.
      index: an int.
      jobs: what `read_jobs` returns, or None, which has every task.
      name: what names the task, for the error messages.
    """
    if jobs is not None and job not in jobs:
        raise ValueError(
            f"{name} has the job {job!r}, but the cluster has {', '.join(jobs)}"
        )
    if jobs is not None and index not in jobs[job]:
        indices = ", ".join(map(str, jobs[job]))
        raise ValueError(
            f"{name} has the index {index}, but the tasks of {job} have "
            f"{indices}"
        )
    return job, index
