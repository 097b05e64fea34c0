"""Compiles CUDA with the nvcc that configure.sh has found, if it found one.

`cuda_repository(name = "cuda")` makes
    @cuda//:runtime        CUDA's static runtime, a cc_library; empty without it
    @cuda//:config.bzl     NVCC, a path or None; HOST_COMPILER likewise;
                           CUDA_RELEASE, as 13.0, or empty; GPUS, those that
                           NVCC makes machine code for, as sm_90; OWN_GPUS, the
                           architectures of this machine's GPUs, as 90, or none
                           where the kernels are for those of a release
The rest of the toolkit is left to nvcc, which knows where it lies.
"""

_BUILD = """\
cc_library(
    name = "runtime",
    srcs = {libraries},
    linkopts = {linkopts},
    linkstatic = True,
    visibility = ["//visibility:public"],
)
"""

_CONFIG = """\
NVCC = {nvcc}

CUDA_RELEASE = {release}

HOST_COMPILER = {host_compiler}

GPUS = {gpus}

OWN_GPUS = {own_gpus}
"""

# nvcc may be a script or a link somewhere else: it says itself where it links.
def _library_folders(ctx, nvcc):
    ctx.file("empty.cu")
    result = ctx.execute([nvcc, "--dryrun", "empty.cu"])
    for line in result.stderr.split("\n"):
        if line.startswith("#$ LIBRARIES="):
            words = line[len("#$ LIBRARIES="):].replace('"', " ").split(" ")
            return [word[2:] for word in words if word.startswith("-L")]
    fail(("{} does not say where its libraries are; to build without it: " +
          "TF_HSM_CUDA=0 ./configure.sh\n{}").format(nvcc, result.stderr))

def _static_runtime(ctx, nvcc):
    folders = _library_folders(ctx, nvcc)
    for folder in folders:
        library = ctx.path(folder + "/libcudart_static.a")
        if library.exists:
            return library
    fail(("{} has no libcudart_static.a in {}: install the CUDA runtime's " +
          "development files, or build without: " +
          "TF_HSM_CUDA=0 ./configure.sh").format(nvcc, " or ".join(folders)))

def _gpus(ctx, nvcc):
    result = ctx.execute([nvcc, "--list-gpu-code"])
    if result.return_code:
        fail("{} --list-gpu-code fails: {}".format(nvcc, result.stderr))
    return [gpu for gpu in result.stdout.split("\n") if gpu]

def _cuda_repository_impl(ctx):
    nvcc = ctx.os.environ.get("TF_HSM_NVCC") or None
    libraries, linkopts = [], []
    if nvcc:
        ctx.symlink(_static_runtime(ctx, nvcc), "libcudart_static.a")
        libraries = ["libcudart_static.a"]
        linkopts = ["-ldl", "-lrt", "-pthread"]
    ctx.file("BUILD", _BUILD.format(
        libraries = repr(libraries),
        linkopts = repr(linkopts),
    ))
    ctx.file("config.bzl", _CONFIG.format(
        nvcc = repr(nvcc),
        host_compiler = repr(ctx.os.environ.get("CC") or None),
        gpus = repr(_gpus(ctx, nvcc) if nvcc else []),
        own_gpus = repr([
            gpu
            for gpu in ctx.os.environ.get("TF_HSM_GPUS", "").split(",")
            if gpu
        ]),
        release = repr(ctx.os.environ.get("TF_HSM_CUDA_RELEASE", "")),
    ))

cuda_repository = repository_rule(
    implementation = _cuda_repository_impl,
    environ = ["CC", "TF_HSM_CUDA_RELEASE", "TF_HSM_GPUS", "TF_HSM_NVCC"],
)

def _cuda_archive_impl(ctx):
    headers = depset(transitive = [
        dep[CcInfo].compilation_context.headers
        for dep in ctx.attr.deps
    ])
    objects = []
    for source in ctx.files.srcs:
        # One action each, so that they run side by side.
        object_file = ctx.actions.declare_file("_objs/{}/{}.o".format(
            ctx.label.name,
            source.short_path.replace("/", "_"),
        ))
        arguments = ctx.actions.args()
        arguments.add_all(ctx.attr.copts)
        arguments.add("-I.")
        arguments.add("-c", source)
        arguments.add("-o", object_file)
        ctx.actions.run(
            executable = ctx.attr.nvcc,
            arguments = [arguments],
            inputs = depset([source], transitive = [headers]),
            outputs = [object_file],
            mnemonic = "CudaCompile",
            progress_message = "Compiling %s with nvcc" % source.short_path,
            use_default_shell_env = True,
        )
        objects.append(object_file)
    arguments = ctx.actions.args()
    arguments.add("rcsD", ctx.outputs.archive)
    arguments.add_all(objects)
    ctx.actions.run_shell(
        command = "ar \"$@\"",
        arguments = [arguments],
        inputs = objects,
        outputs = [ctx.outputs.archive],
        mnemonic = "CudaArchive",
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([ctx.outputs.archive]))]

cuda_archive = rule(
    doc = "A static library of CUDA sources; `hsm_cuda_library` is for use.",
    implementation = _cuda_archive_impl,
    attrs = {
        "archive": attr.output(mandatory = True),
        "copts": attr.string_list(),
        "deps": attr.label_list(
            providers = [CcInfo],
            doc = "Libraries of headers, all of this workspace.",
        ),
        "nvcc": attr.string(mandatory = True),
        "srcs": attr.label_list(allow_files = [".cc", ".cu"]),
    },
)
