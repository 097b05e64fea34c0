package(default_visibility = ["//visibility:public"])

exports_files([{library}])

# The headers for ops and kernels can reach these, of 21,000 files.
cc_library(
    name = "headers",
    hdrs = glob([
        "include/Eigen/**",
        "include/absl/**",
        "include/google/**",
        "include/ml_dtypes/**",
        "include/tensorflow/core/**",
        "include/tsl/**",
        "include/unsupported/**",
        "include/xla/stream_executor/**",
        "include/xla/tsl/**",
    ]),
    defines = {defines},
    # Becomes -isystem: our warnings are not for TensorFlow's code.
    includes = ["include"],
)

# TensorFlow as a program without Python uses it.
cc_library(
    name = "c_api",
    srcs = [
        {cc_library},
        {library},
    ],
    hdrs = glob(["include/tensorflow/c/*.h"]),
    deps = [":headers"],
)
