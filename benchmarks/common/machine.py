"""The machine: its facts, its memory, and processes of their own on it."""

import concurrent.futures
import multiprocessing
import os
import platform
import re

import keras
import tensorflow as tf

import tf_hsm


def num_cpus():
    """The number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def facts(threads):
    """Returns what a reader needs to compare figures, as a dict."""
    return {
        "cpu": _search("/proc/cpuinfo", r"model name\s*: (.*)")
        or platform.machine(),
        "isa": tf_hsm.cpu_isa(),
        "threads": threads,
        "cpus": num_cpus(),
        "memory_bytes": _kilobytes("/proc/meminfo", "MemTotal"),
        "huge_pages": _search(
            "/sys/kernel/mm/transparent_hugepage/enabled", r"\[(\w+)\]"
        ),
        "load_average": os.getloadavg()[0],
        "kernel": platform.release(),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "tf_hsm": tf_hsm.__version__,
        "build": tf_hsm.build_info()["build"],
    }


def run_alone(function, *args):
    """Calls a function in a new process, whose memory is free afterwards.

    Raises:
      concurrent.futures.process.BrokenProcessPool: the process was killed.
    """
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, context) as executor:
        return executor.submit(function, *args).result()


def use_threads(threads):
    """Holds this process to a number of threads, and TensorFlow to the CPU.

    Must come before the first TensorFlow op. All libraries are held, as the
    process may use no more CPUs than that.
    """
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cpus[:threads])
    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)


def use_cpus(count):
    """Makes so many virtual devices of this process' CPU; returns names."""
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * count,
    )
    return [f"CPU:{i}" for i in range(count)]


def available_bytes():
    """The memory that can be had without swapping."""
    return _kilobytes("/proc/meminfo", "MemAvailable")


def resident_bytes():
    """The memory that this process has now."""
    return _kilobytes("/proc/self/status", "VmRSS")


def peak_bytes():
    """The most that this process had, since `restart_peak`."""
    return _kilobytes("/proc/self/status", "VmHWM")


def restart_peak():
    """Forgets the peak so far."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _kilobytes(path, name):
    return 1024 * int(_search(path, rf"{name}:\s*(\d+) kB"))


def _search(path, pattern):
    try:
        with open(path) as file:
            match = re.search(pattern, file.read())
    except OSError:
        return None
    return match and match[1]
