"""Reads the version of the package from pyproject.toml, its only home.

Bazel must know the name of the wheel, which has the version, before it is made.
"""

def _project_repository_impl(ctx):
    lines = ctx.read(ctx.attr.pyproject).split("\n")
    version = [x for x in lines if x.startswith("version = ")][0]
    ctx.file("BUILD")
    ctx.file("version.bzl", version.replace("version", "VERSION") + "\n")

project_repository = repository_rule(
    doc = "Makes @project//:version.bzl, which defines VERSION.",
    implementation = _project_repository_impl,
    attrs = {"pyproject": attr.label(mandatory = True)},
)
