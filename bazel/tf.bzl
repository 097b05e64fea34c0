"""Finds TensorFlow in the virtual environment that configure.sh has made.

`tensorflow_repository(name = "tensorflow")` makes
    @tensorflow//:headers                            a cc_library
    @tensorflow//:libtensorflow_framework.so.2       what an op links against
    @tensorflow//:c_api                              what a program links against
    @tensorflow//:config.bzl                         PYTHON, CXX_STANDARD
Headers and libraries are symlinks into the environment: nothing is copied.
"""

# Compile flags must be TensorFlow's own: another alignment of Eigen's, for one,
# crashes at run time. So TensorFlow is asked, once per environment.
_QUERY = """
import json
import tensorflow as tf
print(json.dumps({
    "compile": tf.sysconfig.get_compile_flags(),
    "include": tf.sysconfig.get_include(),
    "lib": tf.sysconfig.get_lib(),
    "link": tf.sysconfig.get_link_flags(),
}))
"""

_CONFIG = """\
PYTHON = {python}

CXX_STANDARD = {standard}
"""

def _query(ctx, python):
    result = ctx.execute(
        [python, "-c", _QUERY],
        environment = {"TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    if result.return_code:
        fail("{} cannot import TensorFlow. Run ./configure.sh again.\n{}".format(
            python,
            result.stderr,
        ))
    return json.decode(result.stdout.strip().split("\n")[-1])

def _tensorflow_repository_impl(ctx):
    python = ctx.os.environ.get("TF_HSM_PYTHON")
    if not python:
        fail("No Python is configured. Run ./configure.sh first.")
    flags = _query(ctx, python)
    library = [f[3:] for f in flags["link"] if f.startswith("-l:")][0]
    cc_library = library.replace("_framework", "_cc")
    ctx.symlink(flags["include"], "include")
    for name in [library, cc_library]:
        ctx.symlink(flags["lib"] + "/" + name, name)
    ctx.template("BUILD", ctx.attr._build_file, {
        "{cc_library}": repr(cc_library),
        "{defines}": repr([f[2:] for f in flags["compile"] if f.startswith("-D")]),
        "{library}": repr(library),
    })
    ctx.file("config.bzl", _CONFIG.format(
        python = repr(python),
        standard = repr([f for f in flags["compile"] if "-std=" in f]),
    ))

tensorflow_repository = repository_rule(
    implementation = _tensorflow_repository_impl,
    attrs = {
        "_build_file": attr.label(default = "//bazel:tensorflow.BUILD.tpl"),
    },
    # TF_HSM_ENVIRONMENT changes whenever configure.sh has changed .venv.
    environ = ["TF_HSM_ENVIRONMENT", "TF_HSM_PYTHON"],
)
