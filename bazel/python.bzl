"""Runs Python programs and pytest files with the Python of .venv.

Bazel's own Python rules differ too much between versions 4 and 8 and bring
another Python. A library is a plain filegroup; imports start at the root of
the workspace.
"""

load("@tensorflow//:config.bzl", "PYTHON")

def _venv_impl(ctx):
    files = [ctx.file.main] if hasattr(ctx.file, "main") else ctx.files.srcs
    launcher = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.expand_template(
        template = ctx.file._launcher,
        output = launcher,
        substitutions = {
            "{files}": " ".join([file.short_path for file in files]),
            "{module}": files[0].short_path[:-len(".py")].replace("/", "."),
            "{python}": PYTHON,
            "{workspace}": ctx.workspace_name,
        },
        is_executable = True,
    )
    runfiles = ctx.runfiles(
        files = files + ctx.files.deps + ctx.files._data,
    )
    for dep in ctx.attr.deps:
        runfiles = runfiles.merge(dep[DefaultInfo].default_runfiles)
    return [DefaultInfo(executable = launcher, runfiles = runfiles)]

def _attrs(launcher, data = []):
    return {
        "deps": attr.label_list(
            allow_files = True,
            doc = "Files and filegroups that the program needs.",
        ),
        "_data": attr.label_list(allow_files = True, default = data),
        "_launcher": attr.label(allow_single_file = True, default = launcher),
    }

venv_binary = rule(
    doc = "A Python program; `bazel run` passes it all arguments.",
    implementation = _venv_impl,
    attrs = dict(
        _attrs("//bazel:run_main.sh.tpl"),
        main = attr.label(allow_single_file = [".py"], mandatory = True),
    ),
    executable = True,
)

venv_test = rule(
    doc = "Files of pytest tests; --test_filter is pytest's -k.",
    implementation = _venv_impl,
    attrs = dict(
        _attrs("//bazel:run_pytest.sh.tpl", ["//:pyproject.toml"]),
        srcs = attr.label_list(
            allow_empty = False,
            allow_files = [".py"],
            mandatory = True,
        ),
    ),
    test = True,
)

def venv_tests(deps = [], exclude = [], alone = [], shards = None):
    """The tests of the folder: all in one process, which imports TensorFlow once.

    A target `all_tests` runs every file `*_test.py`. The targets with the names
    of the files run them by themselves, where asked for by name.

    Args:
      deps: what they need beside the package and `//tests/support`.
      exclude: files that are left out.
      alone: files that run by themselves always, as those which set what a
        process can set once.
      shards: how many processes share the files of `all_tests`, where one would
        still run when all other tests have ended.
    """
    sources = native.glob(["*_test.py"], exclude = exclude)
    deps = deps + [
        "//tests/support",
        "//tf_hsm",
    ]
    for source in sources:
        venv_test(
            name = source[:-len(".py")],
            timeout = "long",
            srcs = [source],
            tags = [] if source in alone else ["manual"],
            deps = deps,
        )
    venv_test(
        name = "all_tests",
        timeout = "eternal",
        shard_count = shards,
        srcs = [source for source in sources if source not in alone],
        deps = deps,
    )

def venv_package(name, commands, deps = []):
    """The modules of a folder, and a `venv_binary` for each that is a command.

    Args:
      name: of the filegroup of the modules, and of what they need.
      commands: names of modules.
      deps: what they need beside the package.
    """
    public = ["//visibility:public"]
    native.filegroup(
        name = name,
        srcs = native.glob(["*.py"]) + deps,
        visibility = public,
    )
    for command in commands:
        venv_binary(
            name = command,
            main = command + ".py",
            visibility = public,
            deps = [
                name,
                "//tf_hsm",
            ],
        )
