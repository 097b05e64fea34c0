"""The C++ rules of the package: the only place with compile and link flags."""

load("@cuda//:config.bzl", "CUDA_RELEASE", "GPUS", "HOST_COMPILER", "NVCC", "OWN_GPUS")
load("@tensorflow//:config.bzl", "CXX_STANDARD")
load("//bazel:cuda.bzl", "cuda_archive")

_COPTS = CXX_STANDARD + [
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fvisibility=hidden",
] + select({
    "//bazel:debug": ["-Og"],
    "//conditions:default": ["-O3", "-DNDEBUG"],
})

# Kernel sources are compiled once for each of these. The flags must ask for no
# more than cc/core/base/isa.cc checks before it chooses an ISA.
_AVX2 = ["-mavx2", "-mfma"]
_AVX512 = _AVX2 + [
    "-mavx512f",
    "-mavx512bw",
    "-mavx512dq",
    "-mavx512vl",
    "-mprefer-vector-width=512",
]
_X86_ISAS = {
    "avx2": _AVX2,
    "avx512": _AVX512,
    "amx": _AVX512 + ["-mamx-tile", "-mamx-bf16"],
}

# Of these, Clang needs more than 5 minutes with UndefinedBehaviorSanitizer, which
# sees the same sources with AVX2.
_FUZZ_COPTS = {
    "avx512": ["-fno-sanitize=undefined"],
    "amx": ["-fno-sanitize=undefined"],
}

# Machine code for T4, A100 and H100, and PTX that other GPUs compile for
# themselves. configure.sh tries these lines on the nvcc that it finds.
_RELEASE_GPUS = [
    "-gencode=arch=compute_75,code=sm_75",
    "-gencode=arch=compute_80,code=sm_80",
    "-gencode=arch=compute_90,code=[sm_90,compute_90]",
]

# With --config=all_gpus also machine code for B200 and RTX 50, where nvcc has
# them (12.8 and later). Without it, if configure.sh has found GPUs (OWN_GPUS),
# the kernels are for these GPUs alone.
_NEWER_GPUS = {
    "sm_100": ["-gencode", "arch=compute_100,code=sm_100"],
    "sm_120": ["-gencode", "arch=compute_120,code=sm_120"],
}

_CUDA_COPTS = CXX_STANDARD + select({
    "//bazel:all_gpus": _RELEASE_GPUS + [
        flag
        for gpu, flags in _NEWER_GPUS.items()
        if gpu in GPUS
        for flag in flags
    ],
    "//conditions:default": [
        flag
        for gpu in OWN_GPUS
        for flag in [
            "-gencode",
            "arch=compute_{0},code=[sm_{0},compute_{0}]".format(gpu),
        ]
    ] or _RELEASE_GPUS,
}) + [
    # The sources do not use it: another CUDA compiles them again.
    "-DTF_HSM_CUDA_RELEASE=" + CUDA_RELEASE,
    "--Werror=all-warnings",
    "-Wno-deprecated-gpu-targets",
    "-Xcompiler=-fPIC,-fvisibility=hidden,-Wall,-Wextra,-Werror",
] + (["-ccbin=" + HOST_COMPILER] if HOST_COMPILER else []) + select({
    "//bazel:debug": ["-g", "-lineinfo"],
    "//conditions:default": ["-O3", "-DNDEBUG"],
})

_FRAMEWORK = "@tensorflow//:libtensorflow_framework.so.2"

_VERSION_SCRIPT = "//bazel:exports.lds"

_VISIBILITY = ["//:__subpackages__"]

def hsm_cc_library(name, copts = [], visibility = _VISIBILITY, **kwargs):
    """A cc_library with the flags of the package."""
    native.cc_library(
        name = name,
        copts = _COPTS + copts,
        linkstatic = True,
        visibility = visibility,
        **kwargs
    )

def hsm_cc_folder(name, deps = [], test_deps = [], **kwargs):
    """The .h and .cc files of a folder, and a test for every *_test.cc.

    Tests share the *_test_support.h, which are `name`_test_support.

    Args:
      name: that of the folder.
      deps: folders whose headers are included (bazel/check_layers.py).
      test_deps: what the tests need besides.
      **kwargs: of the cc_library.
    """
    support = native.glob(["*_test_support.h"], allow_empty = True)
    tests = native.glob(["*_test.cc"], allow_empty = True)
    hsm_cc_library(
        name = name,
        srcs = native.glob(["*.cc"], allow_empty = True, exclude = tests),
        hdrs = native.glob(["*.h"], exclude = support),
        deps = deps,
        **kwargs
    )
    hsm_cc_library(
        name = name + "_test_support",
        hdrs = support,
        deps = [":" + name] + test_deps,
    )
    for test in tests:
        hsm_cc_test(
            name = test[:-len(".cc")],
            srcs = [test],
            deps = [":" + name, ":" + name + "_test_support"] + test_deps,
        )

def hsm_isa_library(name, srcs, deps = [], **kwargs):
    """Compiles `srcs` once per ISA, with TF_HSM_ISA naming it.

    Args:
      name: of the library with all variants that this machine type has.
      srcs: C++ sources that keep every name in a namespace called TF_HSM_ISA.
      deps: of every variant.
      **kwargs: passed to every variant.
    """
    for isa, copts in [("baseline", [])] + _X86_ISAS.items():
        hsm_cc_library(
            name = name + "_" + isa,
            srcs = srcs,
            # Vectors wider than the registers of an ISA never cross a call.
            copts = copts + [
                "-DTF_HSM_ISA=" + isa,
                "-Wno-psabi",
            ] + select({
                "//bazel:fuzz": _FUZZ_COPTS.get(isa, []),
                "//conditions:default": [],
            }),
            # Only built where `name` asks for it.
            tags = ["manual"],
            deps = deps,
            **kwargs
        )
    native.cc_library(
        name = name,
        linkstatic = True,
        visibility = _VISIBILITY,
        deps = [name + "_baseline"] + select({
            "//bazel:x86_64": [name + "_" + isa for isa in _X86_ISAS],
            "//conditions:default": [],
        }),
    )

def if_cuda(then):
    """`then` where configure.sh has found nvcc, else an empty list."""
    return then if NVCC else []

def hsm_cuda_library(name, srcs, deps, **kwargs):
    """A library of CUDA sources and CUDA's runtime; empty without nvcc.

    Args:
      name: of the library.
      srcs: .cu files.
      deps: libraries with the headers that they include.
      **kwargs: of the cc_library.
    """
    if NVCC:
        cuda_archive(
            name = name + "_archive",
            srcs = srcs,
            archive = "lib%s.a" % name,
            copts = _CUDA_COPTS,
            nvcc = NVCC,
            tags = ["manual"],
            deps = deps,
        )
    native.cc_library(
        name = name,
        srcs = if_cuda(["lib%s.a" % name]),
        linkstatic = True,
        visibility = _VISIBILITY,
        deps = if_cuda(["@cuda//:runtime"]),
        **kwargs
    )

def hsm_cuda_folder(name, deps = []):
    """The .h and .cu files of a folder.

    Makes `name`, its headers; `name`_sources, its .cu files; `name`_emulated,
    the same compiled for the CPU (cc/cuda/device/emulate.h).

    Args:
      name: that of the folder.
      deps: folders whose headers are included.
    """
    sources = native.glob(["*.cu"], allow_empty = True)
    native.filegroup(
        name = name + "_sources",
        srcs = sources,
        visibility = _VISIBILITY,
    )
    hsm_cc_library(
        name = name,
        hdrs = native.glob(["*.h"]),
        textual_hdrs = sources,
        deps = deps,
    )
    emulated = [source[:-len(".cu")] + "_emulated.cc" for source in sources]
    for source, copy in zip(sources, emulated):
        native.genrule(
            name = source + "_for_the_cpu",
            outs = [copy],
            cmd = "echo '#include \"%s/%s\"' > $@" % (
                native.package_name(),
                source,
            ),
        )
    hsm_cc_library(
        name = name + "_emulated",
        srcs = emulated,
        deps = [":" + name],
    )

def hsm_cc_binary(name, copts = [], linkopts = [], **kwargs):
    """A program."""
    native.cc_binary(
        name = name,
        copts = _COPTS + copts,
        linkopts = ["-pthread"] + linkopts,
        linkstatic = True,
        **kwargs
    )

def hsm_cc_test(name, deps = [], copts = [], **kwargs):
    """A cc_test in which assert() is on."""
    native.cc_test(
        name = name,
        copts = _COPTS + ["-UNDEBUG"] + copts,
        linkopts = ["-pthread"],
        linkstatic = True,
        deps = deps,
        **kwargs
    )

def hsm_fuzz_target(name, deps):
    """A program that fuzzes, and a test that replays its corpus.

    With --config=fuzz, `name` is libFuzzer's program. Otherwise it takes files
    and runs over them, as `name`_test does over those of corpus/`name`.

    Args:
      name: that of the source without .cc.
      deps: what the source needs.
    """
    hsm_cc_library(
        name = name + "_target",
        srcs = [name + ".cc"],
        # Its main function refers to what the source defines.
        alwayslink = True,
        deps = deps,
    )
    hsm_cc_binary(
        name = name,
        srcs = select({
            "//bazel:fuzz": [],
            "//conditions:default": ["replay.cc"],
        }),
        linkopts = select({
            "//bazel:fuzz": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        deps = [":%s_target" % name] + deps,
    )
    corpus = native.glob(["corpus/%s/*" % name])
    hsm_cc_test(
        name = name + "_test",
        srcs = ["replay.cc"],
        args = ["$(location %s)" % file for file in corpus],
        data = corpus,
        deps = [":%s_target" % name] + deps,
    )

def hsm_preload_library(name, **kwargs):
    """A shared library for LD_PRELOAD, whose functions hide others' ones."""
    native.cc_binary(
        name = name,
        copts = _COPTS,
        linkopts = ["-ldl"],
        linkshared = True,
        linkstatic = True,
        **kwargs
    )

def hsm_op_library(name, deps, **kwargs):
    """The shared library that tf.load_op_library loads."""
    native.cc_binary(
        name = name,
        additional_linker_inputs = [_FRAMEWORK, _VERSION_SCRIPT],
        linkopts = [
            # By path, so that no rpath to this machine is left in the library.
            "$(location %s)" % _FRAMEWORK,
            "-Wl,--no-undefined",
            "-Wl,--version-script=$(location %s)" % _VERSION_SCRIPT,
            "-pthread",
        ],
        linkshared = True,
        linkstatic = True,
        deps = deps,
        **kwargs
    )
