"""Builds the wheel of the package from the files that Bazel has built."""

load("@project//:version.bzl", "VERSION")
load("@tensorflow//:config.bzl", "PYTHON")

def _wheel_impl(ctx):
    platform = "linux_" + ctx.attr.cpu
    wheel = ctx.actions.declare_file("{}-{}-py3-none-{}.whl".format(
        ctx.attr.distribution,
        VERSION,
        platform,
    ))
    arguments = ctx.actions.args()
    arguments.add(ctx.file._build_wheel)
    arguments.add(platform)
    arguments.add(wheel)
    arguments.add_all(ctx.files.srcs, map_each = _placed)
    ctx.actions.run(
        executable = PYTHON,
        arguments = [arguments],
        inputs = ctx.files.srcs + [ctx.file._build_wheel],
        outputs = [wheel],
        mnemonic = "Wheel",
    )
    return [DefaultInfo(files = depset([wheel]))]

def _placed(file):
    return file.short_path + "=" + file.path

wheel = rule(
    implementation = _wheel_impl,
    attrs = {
        "cpu": attr.string(mandatory = True, doc = "As `uname -m` says it."),
        "distribution": attr.string(mandatory = True),
        "srcs": attr.label_list(allow_files = True),
        "_build_wheel": attr.label(
            allow_single_file = True,
            default = "//bazel:build_wheel.py",
        ),
    },
)
