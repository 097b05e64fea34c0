"""Runs Python programs and pytest files with the Python of .venv.

Bazel's own Python rules differ too much between versions 4 and 8 and bring
another Python. A library is a plain filegroup; imports start at the root of
the workspace.
"""

load("@tensorflow//:config.bzl", "PYTHON")

def _venv_impl(ctx):
    launcher = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.expand_template(
        template = ctx.file._launcher,
        output = launcher,
        substitutions = {
            "{main}": ctx.file.main.short_path,
            "{module}": ctx.file.main.short_path[:-len(".py")].replace("/", "."),
            "{python}": PYTHON,
            "{workspace}": ctx.workspace_name,
        },
        is_executable = True,
    )
    runfiles = ctx.runfiles(
        files = [ctx.file.main] + ctx.files.deps + ctx.files._data,
    )
    for dep in ctx.attr.deps:
        runfiles = runfiles.merge(dep[DefaultInfo].default_runfiles)
    return [DefaultInfo(executable = launcher, runfiles = runfiles)]

def _attrs(launcher, data):
    return {
        "deps": attr.label_list(
            allow_files = True,
            doc = "Files and filegroups that the program needs.",
        ),
        "main": attr.label(allow_single_file = [".py"], mandatory = True),
        "_data": attr.label_list(allow_files = True, default = data),
        "_launcher": attr.label(allow_single_file = True, default = launcher),
    }

venv_binary = rule(
    doc = "A Python program; `bazel run` passes it all arguments.",
    implementation = _venv_impl,
    attrs = _attrs("//bazel:run_main.sh.tpl", []),
    executable = True,
)

venv_test = rule(
    doc = "One file of pytest tests; --test_filter is pytest's -k.",
    implementation = _venv_impl,
    attrs = _attrs("//bazel:run_pytest.sh.tpl", ["//:pyproject.toml"]),
    test = True,
)

def venv_tests(deps = [], exclude = []):
    """A `venv_test` for every file `*_test.py` of the folder.

    Args:
      deps: what they need beside the package and `//tests/support`.
      exclude: files that are left out.
    """
    for source in native.glob(["*_test.py"], exclude = exclude):
        venv_test(
            name = source[:-len(".py")],
            timeout = "long",
            main = source,
            deps = [
                "//tests/support",
                "//tf_hsm",
            ] + deps,
        )

def venv_package(name, commands):
    """The modules of a folder, and a `venv_binary` for each that is a command.

    Args:
      name: of the filegroup of the modules.
      commands: names of modules.
    """
    public = ["//visibility:public"]
    native.filegroup(
        name = name,
        srcs = native.glob(["*.py"]),
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
